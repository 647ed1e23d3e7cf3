package web

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tollhouse/store/eventlog"
)

// EntityTag is a strong tag (RFC 9110 §8.8.3).
func EntityTag(version string) string { return `"` + version + `"` }

// EventTag is the strong tag of an event of an account, and of a resource whose last event it is: an
// event never changes, and every change of a resource has a new event. Two accounts may have
// imported events with one id, and a caller who acts for both must not take one for the other.
func EventTag(account, event string) string { return EntityTag(event + markOf(account)) }

// EventIn returns the event that a version of [VersionsIn] names in an account. An id without the mark
// of an account counts too, since callers know ids from events. That of another account is none.
func EventIn(account, version string) string { return strings.TrimSuffix(version, markOf(account)) }

// markOf marks a tag with an account. Ids of events have no dot.
func markOf(account string) string {
	h := fnv.New64a()
	h.Write([]byte(account))
	return "." + strconv.FormatUint(h.Sum64(), 36)
}

// ListTag is a weak tag, which changes whenever the requested page may have changed. In a
// restored store it has the epoch, because another history may follow the backup.
func (s *Site) ListTag(v eventlog.Version, question string) string {
	h := fnv.New32a()
	h.Write([]byte(question))
	tag := fmt.Sprintf("%s.%d.%08x", v.Head, v.Generation, h.Sum32())
	if epoch := s.Store.Epoch(); epoch != "" {
		tag += "." + epoch
	}
	return `W/"` + tag + `"`
}

// gzipSuffix marks the tag of a compressed response, which is another representation
// (RFC 9110 §8.8.3.3).
const gzipSuffix = "-gzip"

// compressedSuffixes are those that we and proxies such as Apache and Caddy add.
var compressedSuffixes = []string{gzipSuffix, "-br", "-zstd"}

// IsConditional reports whether the caller has some version already.
func IsConditional(r *http.Request) bool { return len(r.Header["If-None-Match"]) > 0 }

// EventNotModified is [NotModified] for an event, or a resource whose last event it is. The bare id
// names it too, as in [EventIn].
func EventNotModified(w http.ResponseWriter, r *http.Request, account, event string) bool {
	return NotModified(w, r, EventTag(account, event), EntityTag(event))
}

// NotModified sets the tag, and responds with 304 if the caller has that version
// (RFC 9110 §13.1.2), compressed or not. also are other tags of that version.
func NotModified(w http.ResponseWriter, r *http.Request, tag string, also ...string) bool {
	w.Header().Set("ETag", tag)
	if !IsConditional(r) {
		return false
	}
	star, tags, ok := ParseEntityTags(r.Header["If-None-Match"])
	if !ok {
		return false
	}
	also = append(also, tag)
	at := slices.IndexFunc(tags, func(given string) bool {
		return slices.ContainsFunc(also, func(tag string) bool { return namesTheSame(given, tag) })
	})
	if at < 0 && !star {
		return false
	}
	if at >= 0 && strings.HasSuffix(tags[at], gzipSuffix+`"`) {
		w.Header().Set("ETag", tags[at]) // the caller's version
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

const entityTagsMax = 64 // of one header

// ParseEntityTags parses * or a list of entity tags (RFC 9110 §8.8.3, §13.1). Our tags
// contain no commas, so it splits at every comma.
func ParseEntityTags(values []string) (star bool, tags []string, ok bool) {
	list := strings.TrimSpace(strings.Join(values, ","))
	if list == "*" {
		return true, nil, true
	}
	for item := range strings.SplitSeq(list, ",") {
		tag := strings.TrimSpace(item)
		if tag == "" {
			continue
		}
		opaque := strings.TrimPrefix(tag, "W/")
		if len(opaque) < 2 || opaque[0] != '"' || opaque[len(opaque)-1] != '"' || len(tags) == entityTagsMax {
			return false, nil, false
		}
		tags = append(tags, tag)
	}
	return false, tags, len(tags) > 0
}

// VersionsIn returns the versions that a tag may name: its text, with and without the
// suffix of a compressed response.
func VersionsIn(tag string) []string {
	opaque := strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
	for _, suffix := range compressedSuffixes {
		if plain, compressed := strings.CutSuffix(opaque, suffix); compressed {
			return []string{opaque, plain}
		}
	}
	return []string{opaque}
}

// namesTheSame compares weakly and ignores the suffix of a compressed response.
func namesTheSame(given, tag string) bool {
	own := strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
	return slices.Contains(VersionsIn(given), own)
}
