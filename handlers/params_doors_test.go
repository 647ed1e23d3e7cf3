package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/storetest"
)

// TestOnlyOurOwnParametersMayNotRepeat: extensions repeat theirs, as RFC 8707 repeats
// resource. Ours stay single (RFC 6749 §3.1, §3.2).
//
// Promise (RFC 6749 §3.2, §3.3): a repeated parameter of ours is refused by name; an empty
// parameter counts as absent; an unknown one is ignored, and may repeat
func TestOnlyOurOwnParametersMayNotRepeat(t *testing.T) {
	h := parallelHouse(t)
	const twice = "&resource=https%3A%2F%2Fa.example&resource=https%3A%2F%2Fb.example"
	token := with(h.credentials(), "token", h.pair(t).AccessToken)
	for path, form := range map[string]url.Values{tokenPath: h.passwordForm(), introspectPath: token, revokePath: token} {
		t.Run("at"+path, func(t *testing.T) {
			post := func(body string) answer {
				return h.do(h.request(t, "POST", path, strings.NewReader(body), header("Content-Type", formType)))
			}
			if a := post(form.Encode() + twice); a.StatusCode != http.StatusOK {
				t.Errorf("a repeated resource = %d %s, want 200", a.StatusCode, a.body)
			}
			wantTokenError(t, post(form.Encode()+twice+"&client_id=x"), http.StatusBadRequest, "invalid_request")
		})
	}
	t.Run("in_JSON_and_multipart", func(t *testing.T) {
		body := strings.TrimSuffix(jsonOf(t, h.passwordForm()), "}") + `,"resource":"a","resource":["b"]}`
		wantPair(t, h.tokenBody(t, "application/json", body))
		contentType, parts := multipartOf(t, h.passwordForm(), "")
		boundary := parts[:strings.Index(parts, "\r\n")]
		part := boundary + "\r\nContent-Disposition: form-data; name=\"resource\"\r\n\r\na\r\n"
		wantPair(t, h.tokenBody(t, contentType, part+part+parts))
	})
	t.Run("at_the_authorization_endpoint_and_its_forms", func(t *testing.T) {
		b := h.browser(t)
		page := b.get(t, h.authURL("state", "s")+twice)
		f := formOn(t, page)
		f.fields["resource"] = []string{"a", "b"}
		f = formOn(t, b.follow(t, b.post(t, f.action, with(f.fields, rightPassword...))))
		f.fields["resource"] = []string{"a", "b"}
		to := callback(t, b.post(t, f.action, with(f.fields, "decision", "allow")), http.StatusSeeOther)
		if to.Query().Get("code") == "" {
			t.Errorf("the flow ends at %s, want a code", to)
		}
		back := callback(t, b.get(t, h.authURL("state", "s")+twice+"&scope=events:read&scope=events:read"), http.StatusFound)
		if got := back.Query().Get("error"); got != "invalid_request" {
			t.Errorf("a repeated scope = %q, want invalid_request", got)
		}
	})
}

// TestJSONOfManyClients: clients send null for what they do not set, members that we do
// not know, and a byte order mark (RFC 8259 §8.1).
//
// Promise (RFC 6749 §3.2, §3.3): in JSON, null is absent, unknown members may have any type, a byte
// order mark is skipped, and a known member of a wrong type is refused by name
func TestJSONOfManyClients(t *testing.T) {
	h := parallelHouse(t)
	const mark = "\ufeff"
	token := with(h.credentials(), "token", h.pair(t).AccessToken)
	for path, form := range map[string]url.Values{tokenPath: h.passwordForm(), introspectPath: token, revokePath: token} {
		t.Run("at"+path, func(t *testing.T) {
			sound := strings.TrimSuffix(jsonOf(t, form), "}")
			post := func(body string) answer {
				return h.do(h.request(t, "POST", path, strings.NewReader(body), header("Content-Type", "application/json")))
			}
			for _, body := range []string{
				sound + `,"scope":null,"code":null}`, sound + `,"audience":["a"],"meta":{"a":{"b":[1]}},"n":1e3,"on":true,"off":false,"no":null}`, mark + sound + "}",
			} {
				if a := post(body); a.StatusCode != http.StatusOK {
					t.Errorf("%s = %d %s, want 200", body, a.StatusCode, a.body)
				}
			}
			for name, value := range map[string]string{"client_id": "7", "client_secret": "[]", "scope": `["events:read"]`, "token_type_hint": "{}"} {
				description := wantTokenError(t, post(`{"`+name+`":`+value+`}`), http.StatusBadRequest, "invalid_request")
				if want := "The parameter " + name + " must be a string."; description != want {
					t.Errorf("%s of %s: %q, want %q", name, value, description, want)
				}
			}
			wantTokenError(t, post(mark+mark+sound+"}"), http.StatusBadRequest, "invalid_request")
		})
	}
	t.Run("a_null_that_is_needed_is_missing", func(t *testing.T) {
		body := strings.Replace(jsonOf(t, h.passwordForm()), `"mara"`, "null", 1)
		if got := wantTokenError(t, h.tokenBody(t, "application/json", body), http.StatusBadRequest, "invalid_request"); got != "The parameter username is missing." {
			t.Errorf("description = %q", got)
		}
	})
	t.Run("a_null_beside_a_value_is_a_repetition", func(t *testing.T) {
		body := strings.TrimSuffix(jsonOf(t, h.passwordForm()), "}") + `,"username":null}`
		wantTokenError(t, h.tokenBody(t, "application/json", body), http.StatusBadRequest, "invalid_request")
	})
	t.Run("at_the_controls_of_dev", func(t *testing.T) {
		d := newDevHouse(t)
		for _, body := range []string{mark + `{"advance":"1s"}`, `{"advance":"1s","set":null,"running":null}`} {
			if a := d.ask(t, "POST", "/_dev/clock", body); a.StatusCode != http.StatusOK {
				t.Errorf("%q = %d %s, want 200", body, a.StatusCode, a.body)
			}
		}
	})
}

// TestJSONOfOAuthIsReadLikeAllOther: a member that no body may hold is refused by name, known or
// not. Before, each door read JSON its own way.
//
// Promise (RFC 6749 §3.2, §3.3): a number beyond binary64, U+0000 and nesting beyond 32 levels are
// refused in a JSON body, in unknown members too
func TestJSONOfOAuthIsReadLikeAllOther(t *testing.T) {
	h := parallelHouse(t)
	token := with(h.credentials(), "token", h.pair(t).AccessToken)
	for path, form := range map[string]url.Values{tokenPath: h.passwordForm(), introspectPath: token, revokePath: token} {
		t.Run("at"+path, func(t *testing.T) {
			sound := strings.TrimSuffix(jsonOf(t, form), "}")
			for member, want := range map[string]string{
				`"n":1e400`:       "n is a number beyond the range of binary64",
				`"n":{"m":1e400}`: "n.m is a number beyond the range of binary64",
				`"n":"\u0000"`:    "n contains U+0000",
				`"n":"\ud800"`:    "n",
				`"n":` + strings.Repeat("[", 32) + strings.Repeat("]", 32): "The JSON body must be one object.",
			} {
				a := h.do(h.request(t, "POST", path, strings.NewReader(sound+","+member+"}"), header("Content-Type", "application/json")))
				if got := wantTokenError(t, a, http.StatusBadRequest, "invalid_request"); !strings.HasPrefix(got, want) {
					t.Errorf("%s: %q, want %q", member, got, want)
				}
			}
		})
	}
}

// TestUsernamesAreTrimmed: keyboards and copied text put white space around a name.
//
// Promise (Browsers): white space around a username is ignored wherever one is typed
func TestUsernamesAreTrimmed(t *testing.T) {
	h := parallelHouse(t)
	for _, name := range []string{" mara", "mara ", "\tmara\r\n", "\u00a0MARA\u3000"} {
		t.Run(url.QueryEscape(name), func(t *testing.T) {
			wantPair(t, h.token(t, with(h.passwordForm(), "username", name)))
			b := h.browser(t)
			if a := b.submit(t, b.get(t, "/login"), "username", name, "password", storetest.Password); a.StatusCode != http.StatusSeeOther {
				t.Errorf("the sign-in form = %d, want 303", a.StatusCode)
			}
		})
	}
	t.Run("with_a_code_for_a_new_password", func(t *testing.T) {
		h.User(t, "nora", h.account)
		if a := h.browser(t).setPassword(t, " nora ", h.codeFor(t, " nora")); a.StatusCode != http.StatusSeeOther {
			t.Errorf("a code for the name = %d, want 303", a.StatusCode)
		}
	})
	t.Run("a_new_user_is_kept_without_it", func(t *testing.T) {
		if u := h.User(t, " ines\n", h.account); u.Username != "ines" {
			t.Errorf("username = %q, want ines", u.Username)
		}
	})
	t.Run("white_space_within_a_name_is_refused", func(t *testing.T) {
		if _, err := store.CanonicalUsername("ma ra"); err == nil {
			t.Error("ma ra is a name")
		}
	})
}
