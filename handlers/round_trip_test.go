package handlers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers/api"
	"tollhouse/handlers/web"
)

// A proxy that compresses weakens a tag or adds a suffix (RFC 9110 §8.8.3), and the
// client knows no other version to send back.
//
// Promise (§3.1): If-Match and If-None-Match give 412, also with a tag that a proxy weakened; with
// an action each call records; If-Match guards a retry
func TestATagThatAProxyChangedStillNamesItsVersion(t *testing.T) {
	h := newHooked(t)
	token := h.token
	const path = "/api/resources/plan/p1"
	tagOf := func(t *testing.T, path string) string {
		t.Helper()
		w := h.get(path, token)
		if w.Code != http.StatusOK {
			t.Fatalf("answer = %d %s", w.Code, w.Body)
		}
		return strings.Trim(w.Header().Get("ETag"), `"`)
	}
	n := 0
	next := func() string { n++; return fmt.Sprintf(`{"description":"%d"}`, n) }
	h.put(path, token, next())
	endpoint := api.WebhooksPath + "/" + h.created(t, `{"url":"`+hookURL+`/tags"}`).ID
	changes := map[string]func(tag string) answer{
		"put":              func(tag string) answer { return h.put(path, token, next(), "If-Match", tag) },
		"patch":            func(tag string) answer { return h.patch(path, token, next(), "If-Match", tag) },
		"action":           func(tag string) answer { return h.patch(path+"?action=renewed", token, `{}`, "If-Match", tag) },
		"webhook_endpoint": func(tag string) answer { return h.patch(endpoint, token, next(), "If-Match", tag) },
	}
	for name, change := range changes {
		at := path
		if name == "webhook_endpoint" {
			at = endpoint
		}
		t.Run(name, func(t *testing.T) {
			for _, form := range []string{`"%s"`, `W/"%s"`, `"%s-gzip"`, `W/"%s-gzip"`, `"%s-br"`, `"%s-zstd"`, `"x", W/"%s"`, `W/"x" , W/"%s", "y"`} {
				if w := change(fmt.Sprintf(form, tagOf(t, at))); w.Code != http.StatusOK {
					t.Errorf("If-Match: "+form+" is %d %s", tagOf(t, at), w.Code, w.Body)
				}
			}
			old := tagOf(t, at)
			change("*")
			list := h.get("/api/events?limit=1", token)
			for _, tag := range []string{`W/"` + old + `"`, `"` + old + `"`, `W/"x"`, `W/"*"`, `W/""`, list.Header().Get("ETag"), `W/"` + tagOf(t, at) + `-deflated"`} {
				change(tag).fault(t, http.StatusPreconditionFailed, "precondition_failed", "")
			}
			for _, tag := range []string{"w/" + `"` + tagOf(t, at) + `"`, "W/" + tagOf(t, at), "W/*", `*, "x"`} {
				change(tag).fault(t, http.StatusBadRequest, "invalid_request", "")
			}
		})
	}
	t.Run("reads_and_If-None-Match", func(t *testing.T) {
		event := h.get("/api/events?limit=1", token).page(t).ids()[0]
		for _, at := range []string{path, "/api/events/" + event} {
			for _, form := range []string{`"%s"`, `W/"%s"`, `W/"x", "%s-gzip"`, `"%s-br"`, `W/"%s-zstd"`} {
				if w := h.get(at, token, "If-None-Match", fmt.Sprintf(form, tagOf(t, at))); w.Code != http.StatusNotModified {
					t.Errorf("%s with If-None-Match: "+form+" is %d", at, tagOf(t, at), w.Code)
				}
			}
		}
		h.put(path, token, next(), "If-None-Match", `W/"`+tagOf(t, path)+`"`).fault(t, http.StatusPreconditionFailed, "precondition_failed", "")
		if w := h.put(path, token, next(), "If-None-Match", `W/"x", "y"`); w.Code != http.StatusOK {
			t.Errorf("If-None-Match of other versions is %d %s", w.Code, w.Body)
		}
	})
	t.Run("delete", func(t *testing.T) {
		if w := h.request("DELETE", path, token, nil, "If-Match", `W/"`+tagOf(t, path)+`"`); w.Code != http.StatusNoContent {
			t.Errorf("answer = %d %s", w.Code, w.Body)
		}
	})
}

// axios, fetch wrappers and requests send plain JSON with every body.
//
// Promise (§3.1): a PATCH may be plain application/json; 415 lists what it accepts in Accept-Patch
func TestAPatchInPlainJSONIsAMergePatch(t *testing.T) {
	h := newHooked(t)
	const path = "/api/resources/plan/p1"
	h.put(path, h.token, `{"title":"Basic","price":900}`)
	endpoint := api.WebhooksPath + "/" + h.created(t, `{"url":"`+hookURL+`/patched"}`).ID
	types := []string{"application/json", "application/json; charset=utf-8", "Application/JSON;Charset=UTF-8", `application/json; charset="utf-8"`, "application/json; charset=utf8",
		web.MergePatchType, web.MergePatchType + "; charset=utf-8", "application/Merge-Patch+JSON"}
	for i, contentType := range types {
		body := fmt.Sprintf(`{"price":%d}`, i)
		w := h.request("PATCH", path, h.token, strings.NewReader(body), "Content-Type", contentType)
		if want := fmt.Sprintf(`{"id":"p1","object":"plan","title":"Basic","price":%d}`, i); w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d %s, want %s", contentType, w.Code, w.Body, want)
		}
		if w := h.request("PATCH", endpoint, h.token, strings.NewReader(`{"description":null}`), "Content-Type", contentType); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", contentType, w.Code, w.Body)
		}
	}
	before := h.get("/api/events", h.token).page(t).ids()
	for _, contentType := range []string{"", "text/json", "text/plain", "application/x-www-form-urlencoded", "application/json-patch+json", "application/json, " + web.MergePatchType, "application/json; charset=utf-16"} {
		for _, at := range []string{path, endpoint} {
			w := h.request("PATCH", at, h.token, strings.NewReader(`{"title":"x"}`), "Content-Type", contentType)
			w.fault(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
			if got := w.Header().Get("Accept-Patch"); got != web.MergePatchType+", application/json" {
				t.Errorf("%q: Accept-Patch is %q", contentType, got)
			}
		}
	}
	// A JSON Patch (RFC 6902) that calls itself JSON is a list, which patches nothing here.
	h.request("PATCH", path, h.token, strings.NewReader(`[{"op":"remove","path":"/title"}]`), "Content-Type", "application/json").fault(t, http.StatusBadRequest, "invalid_field", "")
	h.request("PUT", path, h.token, strings.NewReader(`{}`), "Content-Type", web.MergePatchType).fault(t, http.StatusUnsupportedMediaType, "unsupported_media_type", "")
	if after := h.get("/api/events", h.token).page(t).ids(); !slices.Equal(after, before) {
		t.Errorf("refused patches recorded events: %v after %v", after, before)
	}
}
