package web

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Negotiate returns the offer that the Accept header prefers (RFC 9110 §12.5.1):
// by weight, then by the most specific range, then by order. Without a
// preference it returns the first offer; if none is acceptable, "".
func Negotiate(r *http.Request, offers ...string) string {
	header := r.Header.Values("Accept")
	if len(header) == 0 {
		return offers[0]
	}
	ranges := strings.Split(strings.Join(header, ","), ",")
	var best preference
	chosen := ""
	for _, offer := range offers {
		if p := preferenceFor(offer, ranges); p.betterThan(best) {
			best, chosen = p, offer
		}
	}
	return chosen
}

// preference is what an Accept header says about one media type.
type preference struct {
	weight   float64 // 0 means not acceptable
	plainly  int     // 1 for */*, 2 for type/*, 3 for the type itself
	position int     // of the range in the header
}

func (p preference) betterThan(q preference) bool {
	switch {
	case p.weight != q.weight:
		return p.weight > q.weight
	case p.plainly != q.plainly:
		return p.weight > 0 && p.plainly > q.plainly
	}
	return p.weight > 0 && p.position < q.position
}

// preferenceFor uses the most specific range that matches the media type.
func preferenceFor(mediaType string, ranges []string) preference {
	family, _, _ := strings.Cut(mediaType, "/")
	var best preference
	for i, item := range ranges {
		name, parameters, _ := strings.Cut(strings.ToLower(item), ";")
		p := preference{weight: weightIn(parameters), position: i}
		switch strings.TrimSpace(name) {
		case mediaType:
			p.plainly = 3
		case family + "/*":
			p.plainly = 2
		case "*/*", "": // an empty element or header expresses no preference
			p.plainly = 1
		default:
			continue
		}
		if p.plainly > best.plainly {
			best = p
		}
	}
	return best
}

// weightIn returns the q parameter, or 1 if it is missing or invalid.
func weightIn(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		value, is := strings.CutPrefix(strings.TrimSpace(parameter), "q=")
		if q, err := strconv.ParseFloat(value, 64); is && err == nil && q >= 0 && q <= 1 {
			return q
		}
	}
	return 1
}

// AcceptsJSON is for resources that have no other representation.
func AcceptsJSON(r *http.Request) bool { return Negotiate(r, AsJSON) != "" }

// NotAcceptable refuses a request that accepts none of our representations.
func NotAcceptable(others ...string) *Problem {
	offers := strings.Join(append([]string{AsJSON}, others...), " or ")
	return NewProblem(http.StatusNotAcceptable, "not_acceptable", "The Accept header must allow %s.", offers)
}

const (
	// AsJSON is the media type of most answers.
	AsJSON = "application/json"
	// AsEventStream is the media type of live events.
	AsEventStream = "text/event-stream"
	// EventStreamType names UTF-8, the only encoding of event streams (HTML §9.2.1): Python's
	// requests reads text without a charset as Latin-1.
	EventStreamType = AsEventStream + "; charset=utf-8"
	// MergePatchType is the media type of RFC 7396 §4.
	MergePatchType = "application/merge-patch+json"
)

// requireMediaType refuses other media types and encodings.
func requireMediaType(r *http.Request, accepted ...string) error {
	wrong := func(format string, args ...any) error {
		p := NewProblem(http.StatusUnsupportedMediaType, "unsupported_media_type", format, args...)
		if r.Method == http.MethodPatch {
			p.With("Accept-Patch", strings.Join(accepted, ", "))
		}
		return p
	}
	if r.Header.Get("Content-Encoding") != "" {
		return wrong("Compressed bodies are not accepted; send it without Content-Encoding.")
	}
	got, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || !slices.Contains(accepted, got) {
		return wrong("The Content-Type must be %s.", strings.Join(accepted, " or "))
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8":
	default:
		return wrong("JSON must be UTF-8; leave the charset out.")
	}
	return nil
}
