package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tollhouse/store"
)

// entityTag is a strong one (RFC 9110 §8.8.3): an event never changes, and a
// resource has a new last event whenever it does.
func entityTag(id string) string { return `"` + id + `"` }

// listTag is a weak one, which changes whenever the page that was asked for may
// have.
func listTag(v store.LogVersion, asked uint32) string {
	return fmt.Sprintf(`W/"%s.%d.%08x"`, v.Head, v.Generation, asked)
}

// gzipSuffix is what the tag of a compressed answer has behind that of the
// plain one (RFC 9110 §8.8.3.3: they are different representations).
const gzipSuffix = "-gzip"

func isConditional(r *http.Request) bool { return len(r.Header["If-None-Match"]) > 0 }

// notModified sets the tag, and answers 304 when the caller has what it names
// (RFC 9110 §13.1.2), compressed or not.
func notModified(w http.ResponseWriter, r *http.Request, tag string) bool {
	w.Header().Set("ETag", tag)
	if !isConditional(r) {
		return false
	}
	star, tags, ok := parseEntityTags(r.Header["If-None-Match"])
	if !ok {
		return false
	}
	at := slices.IndexFunc(tags, func(given string) bool { return namesTheSame(given, tag) })
	if at < 0 && !star {
		return false
	}
	if at >= 0 && strings.HasSuffix(tags[at], gzipSuffix+`"`) {
		w.Header().Set("ETag", tags[at]) // of what the caller has
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

const entityTagsMax = 64 // of one header

// parseEntityTags reads * or a list of entity tags (RFC 9110 §8.8.3, §13.1).
// Ours hold no comma, so that none needs to be looked for within the quotes.
func parseEntityTags(values []string) (star bool, tags []string, ok bool) {
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

// versionsIn returns the versions of a resource that a tag may name: what stands
// in its quotes, and that without the mark of a compressed answer.
func versionsIn(tag string) []string {
	opaque := strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
	if plain, compressed := strings.CutSuffix(opaque, gzipSuffix); compressed {
		return []string{opaque, plain}
	}
	return []string{opaque}
}

// namesTheSame compares weakly: W/ or not, compressed or not.
func namesTheSame(given, tag string) bool {
	own := strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
	return slices.Contains(versionsIn(given), own)
}
