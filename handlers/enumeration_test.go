package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// TestEnumeration asks over a connection for unknown and for foreign tokens, clients and
// events. The answers are the same byte for byte, except the request id and text from the
// caller.
//
// Promise (RFC 6749 §4): wrong password, unknown user and disabled user get one answer
// Promise (RFC 9700 §4.5, §4.14): distinguishing an unknown client from a wrong secret
// Promise (Attacks on the events API): another account's events in a list; another account's
// cursor; erased events
func TestEnumeration(t *testing.T) {
	n := populate(t, parallelHouse(t))
	address := n.listen(t)
	for _, like := range n.lookalikes() {
		t.Run(like.name, func(t *testing.T) {
			var unknown string
			for i, ask := range like.asks {
				if like.guesses {
					n.Clock.Advance(throttleForgets)
				}
				a := overTheWire(t, http.DefaultClient, dialled(ask.send(t), address))
				if a.StatusCode != like.status {
					t.Errorf("about %s: status = %d %.200s, want %d", ask.about, a.StatusCode, a.body, like.status)
				}
				switch got := plain(a, ask.typed); {
				case i == 0:
					unknown = got
				case got != unknown:
					t.Errorf("about %s:\n%s\nis not what comes about %s:\n%s", ask.about, got, like.asks[0].about, unknown)
				}
			}
		})
	}
}

// TestEnumerationByTheClock checks loosely what [BenchmarkEnumeration] measures: an
// unknown name costs a password hash too. Without one it would be refused some hundred
// times faster.
//
// Promise (Credentials, memory, connections): distinguishing users by answer or timing
func TestEnumerationByTheClock(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	const tries, margin = 3, 20
	n := populate(t, slowHouse(t))
	for _, like := range n.lookalikes() {
		if !like.hashes {
			continue
		}
		t.Run(like.name, func(t *testing.T) {
			quickest := map[string]time.Duration{}
			for range tries {
				for _, ask := range like.asks {
					n.Clock.Advance(throttleForgets)
					r := ask.send(t)
					began := time.Now()
					n.do(r)
					took := time.Since(began)
					if before, ok := quickest[ask.about]; !ok || took < before {
						quickest[ask.about] = took
					}
				}
			}
			for about, took := range quickest {
				if known := quickest["a_wrong_password"]; took*margin < known {
					t.Errorf("about %s: %v, want about the %v of a wrong password", about, took, known)
				}
			}
		})
	}
}

// dialled turns a request as a server reads it into one that a client can send.
func dialled(r *http.Request, address string) *http.Request {
	r.RequestURI, r.URL = "", &url.URL{Scheme: "http", Host: address, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	return r
}

// plain formats an answer without what always differs: its date, its request id, and text
// from the caller.
func plain(a answer, typed string) string {
	var lines []string
	for name, values := range a.Header {
		if name != "Date" {
			lines = append(lines, fmt.Sprintf("%s: %q", name, values))
		}
	}
	slices.Sort(lines)
	text := fmt.Sprintf("%s %s\n%s\n\n%s", a.Proto, a.Status, strings.Join(lines, "\n"), a.body)
	text = strings.ReplaceAll(text, a.Header.Get("X-Request-Id"), "(id)")
	if typed != "" {
		text = strings.ReplaceAll(text, typed, "(typed)")
	}
	return text
}
