package handlers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// Promise (RFC 6749 §3.2, §3.3): a repeated parameter of ours is refused by name; an empty
// parameter counts as absent; an unknown one is ignored, and may repeat
// Promise (RFC 6749 §5): the response has exactly five members; expires_in is 3600 seconds; the
// response is uncacheable JSON; scope is null when none was requested; token_type is bearer
func TestTokenAnswer(t *testing.T) {
	h := parallelHouse(t)
	a := h.token(t, h.passwordForm())
	t.Run("password_gives_exactly_the_five_fields", func(t *testing.T) {
		var fields map[string]any
		must.Do(t, json.Unmarshal([]byte(a.body), &fields))
		want := []string{"access_token", "expires_in", "refresh_token", "scope", "token_type"}
		if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
			t.Errorf("fields = %v, want %v", got, want)
		}
		if p := wantPair(t, a); p.ExpiresIn != 3600 {
			t.Errorf("expires_in = %d, want 3600", p.ExpiresIn)
		}
	})
	t.Run("headers_are_those_of_the_specification", func(t *testing.T) { wantTokenHeaders(t, a) })
	t.Run("scope_is_null_when_none_was_asked", func(t *testing.T) {
		if !strings.Contains(a.body, `"scope":null`) || !strings.Contains(a.body, `"token_type":"bearer"`) {
			t.Errorf("body = %s, want a null scope and the type bearer", a.body)
		}
	})
	t.Run("unknown_parameter_is_ignored", func(t *testing.T) {
		wantPair(t, h.token(t, with(h.passwordForm(), "audience", "anything", "access_token", "x")))
	})
	t.Run("entropy_is_256_bits", func(t *testing.T) {
		p := wantPair(t, a)
		for prefix, token := range map[string]string{"tollat_": p.AccessToken, "tollrt_": p.RefreshToken} {
			// 43 characters of 62 hold 256 bits; six more are the checksum.
			if body, ok := strings.CutPrefix(token, prefix); !ok || len(body) != 43+6 {
				t.Errorf("token %.7s has %d characters behind its prefix, want %s and 49", token, len(body), prefix)
			}
		}
	})
}

// Promise (RFC 6749 §3.2, §3.3): other methods are 405 with Allow and advice; a path with an extra
// slash or other case is 404, never a redirect; HEAD is 405; OPTIONS is 204 with Allow
func TestTokenMethodsAndPaths(t *testing.T) {
	h := parallelHouse(t)
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH"} {
		t.Run(method+"_names_the_cure", func(t *testing.T) {
			a := h.do(h.request(t, method, tokenPath+"?grant_type=password", nil))
			description := wantTokenError(t, a, http.StatusMethodNotAllowed, "invalid_request")
			if !strings.Contains(description, "POST") || !strings.Contains(description, "body") {
				t.Errorf("error_description = %q, want it to name POST and the body", description)
			}
			wantAllow(t, a, "POST", "OPTIONS")
		})
	}
	t.Run("HEAD_is_405_and_OPTIONS_204", func(t *testing.T) {
		if a := h.do(h.request(t, "HEAD", tokenPath, nil)); a.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("HEAD = %d, want 405", a.StatusCode)
		}
		a := h.do(h.request(t, "OPTIONS", tokenPath, nil))
		if a.StatusCode != http.StatusNoContent || a.body != "" {
			t.Errorf("OPTIONS = %d %q, want 204 and no body", a.StatusCode, a.body)
		}
		wantAllow(t, a, "POST", "OPTIONS")
	})
	for _, path := range []string{"/oauth/v2/token/", "/oauth/v2/Token", "/OAUTH/v2/token", "//oauth/v2/token", "/oauth/v2//token"} {
		t.Run(url.PathEscape(path)+"_is_404_and_no_redirect", func(t *testing.T) {
			a := h.do(h.request(t, "POST", path, strings.NewReader(h.passwordForm().Encode()), header("Content-Type", formType)))
			wantError(t, a, http.StatusNotFound, "not_found")
			if to := a.Header.Get("Location"); to != "" {
				t.Errorf("Location = %q, want none", to)
			}
		})
	}
}

// wantAllow compares Allow as the set that it is.
func wantAllow(t testing.TB, a answer, want ...string) {
	t.Helper()
	got := strings.Split(a.Header.Get("Allow"), ", ")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("Allow = %v, want %v", got, want)
	}
}

// Promise (RFC 6749 §3.2, §3.3): a repeated parameter of ours is refused by name; an empty
// parameter counts as absent; an unknown one is ignored, and may repeat
// Promise (RFC 6749 §3.2, §3.3): an unknown scope is invalid_scope, reported to the client;
// invalid_scope names the scope
// Promise (RFC 6749 §4): a missing username or password is invalid_request; too many failures, at
// the form or of one client's grant, are 429 with Retry-After
// Promise (RFC 6749 §5): no grant_type is invalid_request; an unknown grant_type is
// unsupported_grant_type; a description is ASCII and echoes only an unknown scope; statuses are as
// documented
func TestTokenParameters(t *testing.T) {
	h := parallelHouse(t)
	form := h.passwordForm().Encode()
	cases := []struct {
		name, body, wantCode, wantText string
	}{
		{"repeated_grant_type", form + "&grant_type=password", "invalid_request", "grant_type"},
		{"repeated_client_secret", form + "&client_secret=x", "invalid_request", "client_secret"},
		{"repeated_and_equal", form + "&username=mara", "invalid_request", "username"},
		{"empty_code", "grant_type=authorization_code&code=&redirect_uri=x&" + h.credentials().Encode(), "invalid_request", "code"},
		{"no_grant_type", h.credentials().Encode(), "invalid_request", "grant_type"},
		{"empty_grant_type", "grant_type=&" + h.credentials().Encode(), "invalid_request", "grant_type"},
		{"unknown_grant_type", "grant_type=foo&" + h.credentials().Encode(), "unsupported_grant_type", ""},
		{"device_code", "grant_type=device_code&" + h.credentials().Encode(), "unsupported_grant_type", ""},
		{"implicit", "grant_type=implicit&" + h.credentials().Encode(), "unsupported_grant_type", ""},
		{"other_case", "grant_type=Password&" + h.credentials().Encode(), "unsupported_grant_type", ""},
		{"broken_percent", form + "&x=%zz", "invalid_request", ""},
		{"percent_at_the_end", form + "&x=%", "invalid_request", ""},
		{"invalid_utf8", form + "&x=%ff%fe", "invalid_request", ""},
		{"raw_invalid_utf8", form + "&x=\xff", "invalid_request", ""},
		{"nul_in_username", with(h.passwordForm(), "username", "mara\x00").Encode(), "invalid_request", ""},
		{"no_username", without(h.passwordForm(), "username").Encode(), "invalid_request", "username"},
		{"no_password", without(h.passwordForm(), "password").Encode(), "invalid_request", "password"},
		{"empty_password", with(h.passwordForm(), "password", "").Encode(), "invalid_request", "password"},
		{"no_code", without(h.codeForm("x"), "code").Encode(), "invalid_request", "code"},
		{"no_refresh_token", without(h.refreshForm("x"), "refresh_token").Encode(), "invalid_request", "refresh_token"},
		{"more_than_128", form + manyParams(), "invalid_request", "128"},
		{"empty_body", "", "invalid_client", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			status := http.StatusBadRequest
			if c.wantCode == "invalid_client" {
				status = http.StatusUnauthorized
			}
			description := wantTokenError(t, h.tokenBody(t, formType, c.body), status, c.wantCode)
			if !strings.Contains(description, c.wantText) {
				t.Errorf("error_description = %q, want %q in it", description, c.wantText)
			}
		})
	}
	t.Run("empty_scope_is_as_if_omitted", func(t *testing.T) {
		if p := wantPair(t, h.token(t, with(h.passwordForm(), "scope", ""))); p.Scope != nil {
			t.Errorf("scope = %q, want null", *p.Scope)
		}
	})
	t.Run("no_answer_echoes_what_was_sent_but_an_unknown_scope", func(t *testing.T) {
		const canary = "kanarienvogel"
		bodies := []string{
			"grant_type=" + canary + "&" + h.credentials().Encode(),
			with(h.passwordForm(), "username", canary).Encode(),
			with(h.passwordForm(), "client_id", canary).Encode(), h.codeForm(canary).Encode(), h.refreshForm(canary).Encode(),
		}
		for _, body := range bodies {
			if a := h.tokenBody(t, formType, body); strings.Contains(a.body, canary) || strings.Contains(fmt.Sprint(a.Header), canary) {
				t.Errorf("answer = %s %v, want nothing of the request in it", a.body, a.Header)
			}
		}
		for scope, want := range map[string]string{
			"events:read " + canary + " x": "Unknown scope kanarienvogel. The scopes are events:read, resources:read, resources:write, webhooks:read, webhooks:write, separated by spaces.",
			"event:read":                   "Unknown scope event:read; did you mean events:read?",
			"a\"b":                         "Unknown scope a'b. The scopes are events:read, resources:read, resources:write, webhooks:read, webhooks:write, separated by spaces.",
		} {
			if got := wantTokenError(t, h.token(t, with(h.passwordForm(), "scope", scope)), http.StatusBadRequest, "invalid_scope"); got != want {
				t.Errorf("error_description = %q, want %q", got, want)
			}
		}
	})
}

func manyParams() string {
	var b strings.Builder
	for i := range 11_000 {
		fmt.Fprintf(&b, "&%d", i)
	}
	return b.String()
}

// Promise (RFC 6749 §3.2, §3.3): a body over 64 KiB is 413 and holds no connection; an unsupported
// content type is refused with a list of those supported
// Promise (RFC 6749 §3.2, §3.3): multipart is accepted, files in it are not; so is a JSON object;
// malformed escapes, invalid UTF-8 and NUL are 400
func TestTokenBodyEncodings(t *testing.T) {
	h := parallelHouse(t)
	form := h.passwordForm()
	t.Run("form_with_charset", func(t *testing.T) {
		wantPair(t, h.tokenBody(t, formType+"; charset=UTF-8", form.Encode()))
	})
	t.Run("multipart", func(t *testing.T) {
		contentType, body := multipartOf(t, form, "")
		wantPair(t, h.tokenBody(t, contentType, body))
	})
	t.Run("json", func(t *testing.T) { wantPair(t, h.tokenBody(t, "application/json", jsonOf(t, form))) })

	contentType, file := multipartOf(t, form, "scope")
	sound := strings.TrimSuffix(jsonOf(t, form), "}")
	refused := []struct{ name, contentType, body, wantText string }{
		{"text", "text/plain", form.Encode(), "application/json"},
		{"none", "", form.Encode(), "multipart/form-data"},
		{"xml", "application/xml", "<a/>", "application/x-www-form-urlencoded"},
		{"broken", "application/", form.Encode(), "application/json"},
		{"file_part", contentType, file, "file"},
		{"multipart_without_boundary", "multipart/form-data", file, "multipart"},
		{"multipart_cut_short", contentType, file[:len(file)/2], ""},
		{"json_nested", "application/json", sound + `,"scope":{"a":"b"}}`, "scope must be a string"},
		{"json_array_inside", "application/json", sound + `,"scope":["a"]}`, "scope must be a string"},
		{"json_number", "application/json", sound + `,"scope":1}`, "scope must be a string"},
		{"json_false", "application/json", sound + `,"code_verifier":false}`, "code_verifier must be a string"},
		{"json_array", "application/json", `[]`, "object"},
		{"json_duplicate", "application/json", sound + `,"username":"mara"}`, "username"},
		{"json_duplicate_by_escape", "application/json", sound + `,"usern\u0061me":"mara"}`, "username"},
		{"json_two_objects", "application/json", sound + `}{}`, "object"},
		{"json_broken", "application/json", sound, "object"},
		{"json_empty", "application/json", "", "object"},
		{"json_invalid_utf8", "application/json", sound + ",\"scope\":\"\xff\"}", ""},
		{"json_deep", "application/json", `{"a":` + strings.Repeat("[", 30_000), "object"},
		{"json_deep_objects", "application/json", strings.Repeat(`{"a":`, 12_000), "object"},
	}
	t.Run("multipart_cut_anywhere", func(t *testing.T) {
		contentType, whole := multipartOf(t, form, "")
		for n := range strings.LastIndex(whole, "--") + 2 {
			wantTokenError(t, h.tokenBody(t, contentType, whole[:n]), http.StatusBadRequest, "invalid_request")
		}
	})
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			description := wantTokenError(t, h.tokenBody(t, c.contentType, c.body), http.StatusBadRequest, "invalid_request")
			if !strings.Contains(description, c.wantText) {
				t.Errorf("error_description = %q, want %q in it", description, c.wantText)
			}
		})
	}
	for _, encoding := range []string{"gzip", "br", "identity", "deflate, gzip"} {
		t.Run("content_encoding_"+encoding, func(t *testing.T) {
			a := h.tokenBody(t, formType, form.Encode(), header("Content-Encoding", encoding))
			wantTokenError(t, a, http.StatusUnsupportedMediaType, "unsupported_media_type")
		})
	}
	for _, size := range []int{64<<10 + 1, 1 << 20, 16 << 20} {
		t.Run(fmt.Sprintf("body_of_%d", size), func(t *testing.T) {
			for _, contentType := range []string{formType, "application/json"} {
				body := form.Encode() + "&x=" + strings.Repeat("a", size-len(form.Encode())-3)
				a := h.tokenBody(t, contentType, body)
				wantTokenError(t, a, http.StatusRequestEntityTooLarge, "too_large")
				if a.Header.Get("Connection") != "close" {
					t.Error("the connection is kept, want it closed behind the body")
				}
			}
		})
	}
	t.Run("body_of_exactly_64_KiB", func(t *testing.T) {
		body := form.Encode() + "&x="
		wantPair(t, h.tokenBody(t, formType, body+strings.Repeat("a", 64<<10-len(body))))
	})
}

// multipartOf encodes a form; the parameter named by file is sent as a file.
func multipartOf(t testing.TB, form url.Values, file string) (contentType, body string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for name, values := range form {
		must.Do(t, w.WriteField(name, values[0]))
	}
	if file != "" {
		must.Get(w.CreateFormFile(file, "x.txt"))(t)
	}
	must.Do(t, w.Close())
	return w.FormDataContentType(), b.String()
}

func jsonOf(t testing.TB, form url.Values) string {
	t.Helper()
	object := map[string]string{}
	for name, values := range form {
		object[name] = values[0]
	}
	body := must.Get(json.Marshal(object))(t)
	return string(body)
}

// Promise (RFC 6749 §2.3): a secret in the query of a POST is refused with advice, and never logged
// Promise (Attacks on the events API): compressed bodies; a secret in the query of a token request
func TestTokenSecretsInTheURL(t *testing.T) {
	h := parallelHouse(t)
	const canary = "kanarienvogel"
	for _, query := range []string{
		"client_secret=" + canary, "password=" + canary, "code=" + canary, "refresh_token=" + canary, "code_verifier=" + canary,
		"client_secret=&client_secret=" + canary, "client%5Fsecret=" + canary,
	} {
		t.Run(url.QueryEscape(query), func(t *testing.T) {
			r := h.request(t, "POST", tokenPath+"?"+query, strings.NewReader(h.passwordForm().Encode()), header("Content-Type", formType))
			wantTokenError(t, h.do(r), http.StatusBadRequest, "invalid_request")
		})
	}
	t.Run("the_query_adds_nothing_to_the_body", func(t *testing.T) {
		form := without(h.passwordForm(), "username", "client_id")
		r := h.request(t, "POST", tokenPath+"?username=mara&client_id="+h.client.ID, strings.NewReader(form.Encode()), header("Content-Type", formType))
		wantTokenError(t, h.do(r), http.StatusUnauthorized, "invalid_client")
	})
	t.Run("no_secret_is_logged", func(t *testing.T) {
		if strings.Contains(h.log.String(), canary) {
			t.Error("the log holds a secret from a URL, want none")
		}
	})
}
