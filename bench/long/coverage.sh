#!/bin/sh
# Prints the share of statements that the tests of the store and of the HTTP server reach
# together, for each package that decides on tokens, events and webhooks, and for the files of
# OAuth in handlers.
set -e
unset TOLLHOUSE_LONG # the short forms
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -count=1 -coverprofile="$dir/profile" \
	-coverpkg=./store,./store/eventlog,./store/record,./store/secret,./store/webhook,./handlers/... \
	./store/... ./handlers/... >"$dir/out" || { cat "$dir/out"; exit 1; }
oauth='/handlers/(oauth/[a-z_]+|api/bearer|web/cookies)[.]go$'
awk -F'[: ]' -v oauth="$oauth" 'NR > 1 && ($1 !~ "/handlers/" || $1 ~ oauth) {
	block = $1 ":" $2
	size[block] = $3
	if ($4 > 0) reached[block] = 1
} END {
	for (block in size) {
		package = block
		sub("/[^/]*$", "", package)
		all[package] += size[block]
		if (block in reached) some[package] += size[block]
	}
	for (package in all) printf "%s: figure coverage_percent %.1f\n", package, 100 * some[package] / all[package]
}' "$dir/profile"
