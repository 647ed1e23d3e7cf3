package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tollhouse/store/eventlog"
)

// entityTag is a strong tag (RFC 9110 §8.8.3): an event never changes, and every
// change of a resource has a new event.
func entityTag(id string) string { return `"` + id + `"` }

// listTag is a weak tag, which changes whenever the requested page may have changed. In a
// restored store it has the epoch, because another history may follow the backup.
func (s *Server) listTag(v eventlog.Version, asked uint32) string {
	tag := fmt.Sprintf("%s.%d.%08x", v.Head, v.Generation, asked)
	if epoch := s.store.Epoch(); epoch != "" {
		tag += "." + epoch
	}
	return `W/"` + tag + `"`
}

// gzipSuffix marks the tag of a compressed response, which is another representation
// (RFC 9110 §8.8.3.3).
const gzipSuffix = "-gzip"

func isConditional(r *http.Request) bool { return len(r.Header["If-None-Match"]) > 0 }

// notModified sets the tag, and responds with 304 if the caller has that version
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
		w.Header().Set("ETag", tags[at]) // the caller's version
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

const entityTagsMax = 64 // of one header

// parseEntityTags parses * or a list of entity tags (RFC 9110 §8.8.3, §13.1). Our tags
// contain no commas, so it splits at every comma.
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

// versionsIn returns the versions that a tag may name: its text, with and without the
// suffix of a compressed response.
func versionsIn(tag string) []string {
	opaque := strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
	if plain, compressed := strings.CutSuffix(opaque, gzipSuffix); compressed {
		return []string{opaque, plain}
	}
	return []string{opaque}
}

// namesTheSame compares weakly and ignores the gzip suffix.
func namesTheSame(given, tag string) bool {
	own := strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
	return slices.Contains(versionsIn(given), own)
}
