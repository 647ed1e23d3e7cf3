#!/usr/bin/env bash
# Makes schema1.tar.gz and schema1.json anew: see README.md.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
commit=77841a15b4d1832093b92027d711c45af89f9eca
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/tree"
git archive "$commit" | tar -x -C "$work/tree"
# Told the time, the engine drops nothing: what is in the store stays in it.
sed -i 's/^func openKeep(.*{$/&\n\to.now = func() time.Time { return time.Unix(1748779200, 0) }/' "$work/tree/cli/keep.go"
(cd "$work/tree" && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/tollhouse" .)
TOLLHOUSE_BINARY="$work/tollhouse" go test -tags older ./cli/proof -count 1 -run '^TestMakeOlderStore$' -older "$PWD/cli/testdata/older/schema1"
