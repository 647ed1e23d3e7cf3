package handlers

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// Promise (§2.3): JSON, NDJSON and event streams by Accept; else 406
func TestNegotiate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, accept, want string }{
		{"nothing", "", web.AsJSON},
		{"anything", "*/*", web.AsJSON},
		{"by_name", "application/x-ndjson", api.AsNDJSON},
		{"by_weight", "application/json;q=0.5, application/x-ndjson", api.AsNDJSON},
		{"by_weight_of_a_range", "application/x-ndjson;q=0.2, application/*;q=0.9", web.AsJSON},
		{"the_plainest_range_decides", "*/*, application/json;q=0.1, application/x-ndjson;q=0.2", api.AsNDJSON},
		{"the_name_before_the_range", "*/*, application/x-ndjson", api.AsNDJSON},
		{"the_first_of_equals", "application/x-ndjson, application/json", api.AsNDJSON},
		{"never_at_weight_0", "*/*, application/json;q=0", api.AsNDJSON},
		{"in_capitals_with_parameters", "Application/X-NDJSON; charset=utf-8; q=1.0", api.AsNDJSON},
		{"a_weight_that_is_none", "application/x-ndjson;q=much", api.AsNDJSON},
		{"none_of_them", "text/html, image/*", ""},
	} {
		t.Run("accept_"+tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if tt.accept != "" {
				r.Header.Set("Accept", tt.accept)
			}
			if got := web.Negotiate(r, web.AsJSON, api.AsNDJSON); got != tt.want {
				t.Errorf("negotiate(%s) = %q, want %q", tt.accept, got, tt.want)
			}
		})
	}
}

// The same page in its other representation.
//
// Promise (§2.3): JSON, NDJSON and event streams by Accept; else 406
func TestListEventsAsNDJSON(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	for _, query := range []string{"?limit=2", "?limit=2&order=asc", "?before=" + goldenFirst + "&limit=1", "?type=customer.*", "?after=latest&order=asc", "?createdAt=5"} {
		t.Run("NDJSON_"+query, func(t *testing.T) {
			t.Parallel()
			plain, lines := a.get("/api/events"+query, token), a.get("/api/events"+query, token, "Accept", "application/x-ndjson")
			page := plain.page(t)
			var ids []string
			for line := range bytes.Lines(lines.Body.Bytes()) {
				if !bytes.HasSuffix(line, []byte("}\n")) {
					t.Errorf("line %q does not end its event", line)
				}
				ids = append(ids, decodeObject(t, line)["id"].(string))
			}
			if !slices.Equal(ids, page.ids()) {
				t.Errorf("lines = %q, want the events of the page, %q", ids, page.ids())
			}
			h := lines.Header()
			if h.Get("Content-Type") != "application/x-ndjson" || h.Get("Tollhouse-Next-Cursor") != page.Next || h.Get("Link") != plain.Header().Get("Link") {
				t.Errorf("headers = %v, want the cursor %s", h, page.Next)
			}
			if tag := h.Get("ETag"); tag == plain.Header().Get("ETag") {
				t.Errorf("both representations have the tag %s", tag)
			}
		})
	}
}

// Promise (§2.3): a list's ETag is weak; a quiet poll is 304 before any scan; any write or removal
// changes it
func TestListEventsETag(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	targets := []string{
		"/api/events", "/api/events?limit=1", "/api/events?type=customer.updated", "/api/events?type=customer.*", "/api/events?resource=pa_9rd3x6",
		"/api/events?order=asc&after=" + goldenFirst, "/api/events?before=" + goldenFirst, "/api/events?order=asc&after=latest", "/api/events?createdAt[lte]=1773066600",
	}
	tags := map[string]string{}
	for _, target := range targets {
		w := a.get(target, token)
		tag := w.Header().Get("ETag")
		if !strings.HasPrefix(tag, `W/"evt_`) || tags[tag] != "" {
			t.Fatalf("ETag_of_a_list: that of %s is %s, as of %q; want a weak one of its own", target, tag, tags[tag])
		}
		tags[tag] = target
	}
	stale := func(t *testing.T, why string) {
		t.Helper()
		for tag, target := range tags {
			w := a.get(target, token, "If-None-Match", tag)
			if w.Code != http.StatusOK || w.Header().Get("ETag") == tag {
				t.Errorf("%s: %s = %d with %s, want a new page", why, target, w.Code, w.Header().Get("ETag"))
			}
			delete(tags, tag)
		}
		for _, target := range targets {
			tags[a.get(target, token).Header().Get("ETag")] = target
		}
	}
	t.Run("a_quiet_poll_is_304", func(t *testing.T) {
		for tag, target := range tags {
			w := a.get(target, token, "If-None-Match", `"other", `+tag)
			if w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("ETag") != tag || w.Header().Get("Cache-Control") != "private, no-cache" || w.Header().Get("Vary") == "" {
				t.Errorf("%s = %d %v", target, w.Code, w.Header())
			}
			if w.Header().Get("Content-Type") != "" {
				t.Errorf("304 has a Content-Type")
			}
		}
	})
	t.Run("the_tag_of_another_query_is_no_match", func(t *testing.T) {
		for tag, target := range tags {
			if w := a.get(target+"&limit=7", token, "If-None-Match", tag); strings.Contains(target, "?") && !strings.Contains(target, "limit") && w.Code != http.StatusOK {
				t.Errorf("%s with another limit = %d", target, w.Code)
			}
		}
	})
	t.Run("a_page_has_one_tag_also_when_the_callers_is_stale", func(t *testing.T) {
		for tag, target := range tags {
			for _, accept := range []string{web.AsJSON, api.AsNDJSON} {
				if got := a.get(target, token, "If-None-Match", `W/"stale"`, "Accept", accept).Header().Values("ETag"); len(got) != 1 || accept == web.AsJSON && got[0] != tag {
					t.Errorf("the tags of %s as %s are %q, want only %s", target, accept, got, tag)
				}
			}
		}
	})
	t.Run("parameters_in_another_order_are_the_same_query", func(t *testing.T) {
		first := a.get("/api/events?type=a.b&type[]=c.d&limit=3", token).Header().Get("ETag")
		if second := a.get("/api/events?limit=3&type=c.d,a.b", token).Header().Get("ETag"); second != first {
			t.Errorf("tags = %s and %s", first, second)
		}
	})
	t.Run("a_refused_query_is_refused_with_any_tag", func(t *testing.T) {
		a.get("/api/events?limit=0", token, "If-None-Match", "*").fault(t, http.StatusBadRequest, "invalid_parameter", "limit")
	})
	t.Run("a_stranger_with_the_tag_gets_his_own_page", func(t *testing.T) {
		stranger := a.token(t, "stranger", "acct_other", store.ScopeUnstated)
		for tag, target := range tags {
			if w := a.get(target, stranger, "If-None-Match", tag); w.Code != http.StatusOK {
				t.Errorf("%s = %d", target, w.Code)
			}
		}
	})
	t.Run("a_new_event_makes_tags_stale", func(t *testing.T) {
		a.put("/api/resources/plan/p1", token, `{}`)
		stale(t, "a new event")
	})
	t.Run("history_below_the_head_makes_tags_stale", func(t *testing.T) {
		a.importLines(t, goldenAccount, `{"type":"plan.retired","resource":"p1","eventData":{"object":{}},"createdAt":1000000000}`)
		stale(t, "an import of history")
	})
}

// gunzip returns a decompressed answer.
func gunzip(t *testing.T, w answer) []byte {
	t.Helper()
	z := must.Get(gzip.NewReader(w.Body))(t)
	b := must.Get(io.ReadAll(z))(t)
	return b
}

// Promise (§2.3): gzip from 1 KiB on request, with its own ETag, never on a stream
func TestCompression(t *testing.T) {
	t.Parallel()
	a, token := newGoldenAPI(t)
	const gzipped = "gzip, deflate, br"
	t.Run("gzip_when_asked_for", func(t *testing.T) {
		t.Parallel()
		for _, accept := range []string{"application/json", "application/x-ndjson"} {
			plain := a.get("/api/events?limit=3", token, "Accept", accept)
			small := a.get("/api/events?limit=3", token, "Accept", accept, "Accept-Encoding", gzipped)
			if small.Header().Get("Content-Encoding") != "gzip" || plain.Header().Get("Content-Encoding") != "" {
				t.Fatalf("Content-Encoding = %q and %q", small.Header().Get("Content-Encoding"), plain.Header().Get("Content-Encoding"))
			}
			if length := small.Header().Get("Content-Length"); length != "" {
				t.Errorf("Content-Length = %s, of what was not compressed", length)
			}
			if got := small.Header().Values("Vary"); !slices.Equal(got, []string{"Authorization, Accept, Accept-Encoding, Tollhouse-Account"}) {
				t.Errorf("Vary = %q", got)
			}
			if body := gunzip(t, small); !bytes.Equal(body, plain.Body.Bytes()) {
				t.Errorf("unpacked = %s, want %s", body, plain.Body)
			}
		}
	})
	t.Run("gzip_has_a_tag_of_its_own_and_both_are_304", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events", "/api/events?limit=3"} {
			plain := a.get(target, token).Header().Get("ETag")
			small := a.get(target, token, "Accept-Encoding", "gzip").Header().Get("ETag")
			if want := strings.TrimSuffix(plain, `"`) + `-gzip"`; small != want {
				t.Errorf("%s: tag = %s, want %s", target, small, want)
			}
			for _, tag := range []string{plain, small} {
				w := a.get(target, token, "Accept-Encoding", "gzip", "If-None-Match", tag)
				if w.Code != http.StatusNotModified || w.Header().Get("ETag") != tag {
					t.Errorf("%s with %s = %d %s", target, tag, w.Code, w.Header().Get("ETag"))
				}
			}
		}
	})
	t.Run("gzip_only_from_1_KiB_on", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/api/events/" + goldenSecond, "/api/events?createdAt=5", "/api/nothing"} {
			if w := a.get(target, token, "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "" || w.Body.Len() >= web.GzipSizeMin {
				t.Errorf("%s = %d bytes, %q", target, w.Body.Len(), w.Header().Get("Content-Encoding"))
			}
		}
	})
	t.Run("no_other_coding", func(t *testing.T) {
		t.Parallel()
		for _, accept := range []string{"zstd", "br", "identity", "gzip;q=0", ""} {
			if w := a.get("/api/events", token, "Accept-Encoding", accept); w.Header().Get("Content-Encoding") != "" {
				t.Errorf("Accept-Encoding %q = %q", accept, w.Header().Get("Content-Encoding"))
			}
		}
	})
	t.Run("attack_pages_and_oauth_are_never_compressed", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/", "/login", "/oauth/v2/auth", web.MetadataPath, "/account"} {
			if w := a.get(target, "", "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "" {
				t.Errorf("%s is compressed", target)
			}
		}
	})
	t.Run("a_change_is_guarded_by_the_tag_of_a_compressed_answer", func(t *testing.T) {
		t.Parallel()
		a, token := newGoldenAPI(t) // its own: a new event makes the others' tags stale
		body := `{"note":"` + strings.Repeat("so it is ", 200) + `"}`
		a.put("/api/resources/plan/long", token, body)
		tag := a.get("/api/resources/plan/long", token, "Accept-Encoding", "gzip").Header().Get("ETag")
		if !strings.HasSuffix(tag, `-gzip"`) {
			t.Fatalf("tag = %s", tag)
		}
		if w := a.put("/api/resources/plan/long", token, `{}`, "If-Match", tag); w.Code != http.StatusOK {
			t.Errorf("first change = %d %s", w.Code, w.Body)
		}
		a.put("/api/resources/plan/long", token, body, "If-Match", tag).fault(t, http.StatusPreconditionFailed, "precondition_failed", "")
	})
}
