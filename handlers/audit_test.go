package handlers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// audit returns the whole audit log.
func (h *house) audit(t testing.TB) []store.AuditLine {
	t.Helper()
	lines := must.Get(h.ListAudit(context.Background(), record.Position{}, 10_000))(t)
	return lines
}

// recorded returns the audit lines that a step adds.
func (h *house) recorded(t testing.TB, step func()) []store.AuditLine {
	t.Helper()
	before := len(h.audit(t))
	step()
	return h.audit(t)[before:]
}

// admin sends a request to the admin API.
func (h *house) admin(t testing.TB, method, path, body string) answer {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.RemoteAddr = "@"
	r.Header.Set("Content-Type", "application/json")
	h.operators.ServeHTTP(w, r)
	return answer{Response: w.Result(), body: w.Body.String()}
}

// auditCase is a step, and the one line that it adds.
type auditCase struct {
	name     string
	step     func(t *testing.T) answer
	what     store.Audited
	reason   string
	byClient bool // the line names the client
	ofUser   bool // the line names the user
}

func (h *house) wantOneLine(t *testing.T, cases []auditCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var a answer
			h.Clock.Advance(time.Minute) // the first refusal of a kind in a minute has a line of its own
			lines := h.recorded(t, func() { a = c.step(t) })
			lines = slices.DeleteFunc(lines, func(l store.AuditLine) bool { return l.RequestID != a.Header.Get("X-Request-Id") })
			if len(lines) > 1 && strings.HasSuffix(c.reason, " deleted") && lines[0].Reason == strings.TrimSuffix(c.reason, "deleted")+"deletion begun" {
				lines = lines[1:] // it takes several transactions, of which the first disables
			}
			if len(lines) != 1 {
				t.Fatalf("the record has %+v of this request, want one line", lines)
			}
			l := lines[0]
			if l.What != c.what || l.Reason != c.reason {
				t.Errorf("%s %q, want %s %q", l.What, l.Reason, c.what, c.reason)
			}
			if (l.ClientID == h.client.ID) != c.byClient || (l.UserID == h.user.Subject()) != c.ofUser {
				t.Errorf("client %q and user %q, want them named: %t, %t", l.ClientID, l.UserID, c.byClient, c.ofUser)
			}
			if !l.At.Equal(h.Clock.Now()) || l.Source == "" && l.What != store.AuditAdmin {
				t.Errorf("at %s from %q, want when and where from", l.At, l.Source)
			}
		})
	}
}

// Promise (RFC 6749 §4): Allow sends one code to the redirect URI; Deny is 303 with access_denied,
// a description, state and iss, and stores no code
func TestAuditOfPeople(t *testing.T) {
	h := parallelHouse(t)
	s := h.stranger(t)
	h.wantOneLine(t, []auditCase{
		{"login", func(t *testing.T) answer {
			b := h.browser(t)
			return b.submit(t, b.get(t, "/login"), rightPassword...)
		}, store.AuditLogin, "", false, true},
		{"wrong_password", func(t *testing.T) answer { return s.signIn(t, "MARA", tooLong) }, store.AuditLoginRefused, "wrong_password", false, true},
		{"unknown_user", func(t *testing.T) answer { return s.signIn(t, "nils", tooLong) }, store.AuditLoginRefused, "unknown_user", false, false},
		{"grant_wrong_password", func(t *testing.T) answer { return h.grant(t, "mara", tooLong) }, store.AuditLoginRefused, "wrong_password", true, true},
		{"throttle", func(t *testing.T) (a answer) {
			for range 10 { // the last one is throttled, after one failure above
				a = s.signIn(t, "mara", tooLong, from("203.0.113.7"))
			}
			return a
		}, store.AuditThrottle, "too_many_failures", false, true},
		{"denied", func(t *testing.T) answer {
			b := h.signedIn(t, h.user)
			return b.submit(t, b.get(t, h.authURL()), "decision", "deny")
		}, store.AuditDenied, "denied_by_user", true, true},
		{"disabled_user", func(t *testing.T) answer {
			if a := h.admin(t, "POST", "/api/platform/users/"+h.UserID(t, "mara")+"/disable", ""); a.StatusCode != http.StatusOK {
				t.Fatalf("disable = %d %s", a.StatusCode, a.body)
			}
			h.Clock.Advance(time.Hour)
			return s.signIn(t, "mara", storetest.Password)
		}, store.AuditLoginRefused, "user_disabled", false, true},
		{"disabled_account", func(t *testing.T) answer {
			must.Get(h.EnableUser(t.Context(), "mara"))(t)
			must.Get(h.DisableAccount(t.Context(), h.account))(t)
			h.Clock.Advance(time.Hour)
			return s.signIn(t, "mara", storetest.Password)
		}, store.AuditLoginRefused, "account_disabled", false, true},
	})
}

// Promise (RFC 6749 §5): the response has exactly five members; expires_in is 3600 seconds; the
// response is uncacheable JSON; scope is null when none was requested; token_type is bearer
func TestAuditOfTokens(t *testing.T) {
	h := parallelHouse(t)
	other, otherSecret := h.Client(t)
	refused := store.AuditRefused
	h.wantOneLine(t, []auditCase{
		{"grant_by_password", func(t *testing.T) answer { return h.token(t, h.passwordForm()) }, store.AuditGrant, "password", true, true},
		{"grant_by_code", func(t *testing.T) answer { return h.token(t, h.codeForm(h.code(t))) }, store.AuditGrant, "authorization_code", true, true},
		{"wrong_secret", func(t *testing.T) answer { return h.token(t, with(h.passwordForm(), "client_secret", "wrong")) },
			refused, "unknown_or_disabled_client_or_wrong_secret", false, false},
		{"unknown_code", func(t *testing.T) answer { return h.token(t, h.codeForm(secret.New(nil, secret.Code).Reveal())) }, refused, "unknown", true, false},
		{"garbage_for_a_code", func(t *testing.T) answer { return h.token(t, h.codeForm("x")) }, refused, "unknown", true, false},
		{"other_redirect_uri", func(t *testing.T) answer {
			return h.token(t, with(h.codeForm(h.code(t)), "redirect_uri", storetest.CallbackURI+"/"))
		}, refused, "another_redirect_uri", true, false},
		{"other_verifier", func(t *testing.T) answer {
			return h.token(t, with(h.codeForm(h.pkceCode(t, challenge)), "code_verifier", strings.Repeat("x", 43)))
		}, refused, "another_code_verifier", true, false},
		{"expired_code", func(t *testing.T) answer {
			code := h.code(t)
			h.Clock.Advance(time.Minute)
			return h.token(t, h.codeForm(code))
		}, refused, "expired", true, false},
		{"replayed_code", func(t *testing.T) answer {
			form := h.codeForm(h.code(t))
			wantPair(t, h.token(t, form))
			h.Clock.Advance(11 * time.Second)
			return h.token(t, form)
		}, store.AuditCodeReplay, "code_replayed", true, true},
		{"code_replayed_again", func(t *testing.T) answer {
			form := h.codeForm(h.code(t))
			wantPair(t, h.token(t, form))
			h.Clock.Advance(11 * time.Second)
			h.token(t, form)
			return h.token(t, form)
		}, refused, "used_before", true, false},
		{"reused_refresh_token", func(t *testing.T) answer {
			p := h.pair(t)
			q := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
			wantPair(t, h.token(t, h.refreshForm(q.RefreshToken)))
			return h.token(t, h.refreshForm(p.RefreshToken))
		}, store.AuditRefreshReuse, "refresh_reused", true, true},
		{"another_clients_refresh_token", func(t *testing.T) answer {
			return h.token(t, h.refreshForm(wantPair(t, h.token(t, as(h.passwordForm(), other, otherSecret))).RefreshToken))
		}, refused, "another_clients", true, false},
		{"scope_not_granted", func(t *testing.T) answer {
			return h.token(t, with(h.refreshForm(h.pair(t, "scope", "events:read").RefreshToken), "scope", "resources:read"))
		}, refused, "scope_not_granted", true, false},
		{"revoked", func(t *testing.T) answer { return h.revoke(t, h.pair(t).RefreshToken) }, store.AuditRevoke, "revoked_by_client", true, true},
		{"access_token_revoked", func(t *testing.T) answer { return h.revoke(t, h.pair(t).AccessToken) }, store.AuditRevoke, "revoked_by_client", true, true},
		{"refresh_token_of_a_revoked_family", func(t *testing.T) answer {
			p := h.pair(t)
			h.revoke(t, p.RefreshToken)
			return h.token(t, h.refreshForm(p.RefreshToken))
		}, refused, "revoked", true, false},
	})
	t.Run("code_of_one_client_redeemed_by_another", func(t *testing.T) {
		code := h.code(t)
		var a answer
		lines := h.recorded(t, func() { a = h.token(t, as(h.codeForm(code), other, otherSecret)) })
		wantTokenError(t, a, http.StatusBadRequest, "invalid_grant")
		if len(lines) != 1 || lines[0].What != refused || lines[0].Reason != "another_clients" || lines[0].ClientID != other.ID || lines[0].RequestID != a.Header.Get("X-Request-Id") {
			t.Errorf("the record has %+v, want one line with the thief and the reason", lines)
		}
		wantPair(t, h.token(t, h.codeForm(code)))
	})
	t.Run("nothing_of_what_changed_nothing", func(t *testing.T) {
		p := h.pair(t)
		h.revoke(t, p.RefreshToken)
		lines := h.recorded(t, func() {
			h.revoke(t, p.RefreshToken)
			h.revoke(t, p.AccessToken)
			h.revoke(t, secret.New(nil, secret.RefreshToken).Reveal())
			h.postForm(t, revokePath, with(as(h.credentials(), other, otherSecret), "token", h.pair(t).RefreshToken))
		})
		if lines = slices.DeleteFunc(lines, func(l store.AuditLine) bool { return l.What != store.AuditRevoke }); len(lines) > 0 {
			t.Errorf("the audit log has %+v, want no revocation", lines)
		}
	})
}

func TestAuditOfOperators(t *testing.T) {
	h := parallelHouse(t)
	client, user := "/api/platform/clients/"+h.client.ID, "/api/platform/users/"+h.UserID(t, "mara")
	var cases []auditCase
	for _, c := range []struct{ reason, method, path, body string }{
		{"client updated", "PATCH", client, `{"name":"Larkspur"}`},
		{"client secret rotated", "POST", client + "/rotate-secret", ""},
		{"client disabled", "POST", client + "/disable", ""},
		{"client enabled", "POST", client + "/enable", ""},
		{"client deleted", "DELETE", client, ""},
		{"password set", "POST", user + "/password", `{"password":"` + storetest.Password + `"}`},
		{"user disabled", "POST", user + "/disable", ""},
		{"user enabled", "POST", user + "/enable", ""},
		{"user promoted", "POST", user + "/promote", ""},
		{"user demoted", "POST", user + "/demote", ""},
		{"user deleted", "DELETE", user, ""},
	} {
		ofClient := strings.HasPrefix(c.path, client)
		cases = append(cases, auditCase{strings.ReplaceAll(c.reason, " ", "_"), func(t *testing.T) answer {
			a := h.admin(t, c.method, c.path, c.body)
			if a.StatusCode >= http.StatusBadRequest {
				t.Fatalf("%s %s = %d %s", c.method, c.path, a.StatusCode, a.body)
			}
			return a
		}, store.AuditAdmin, c.reason, ofClient, !ofClient})
	}
	h.wantOneLine(t, cases)
	t.Run("events_name_their_account", func(t *testing.T) {
		const event = `{"resource":"cus_1","source":"mara","location":"api","type":"customer.created","eventData":{"object":{"id":"cus_1","object":"customer"}}}`
		var a answer
		lines := h.recorded(t, func() {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/admin/events?account="+h.account, strings.NewReader(event))
			r.Header.Set("Content-Type", "application/json")
			h.server.Admin().ServeHTTP(w, r)
			a = answer{Response: w.Result(), body: w.Body.String()}
		})
		if a.StatusCode != http.StatusCreated || len(lines) != 1 || lines[0].Reason != "event recorded" || lines[0].AccountID != h.account {
			t.Errorf("status = %d %s, the record has %+v; want one line with the account", a.StatusCode, a.body, lines)
		}
	})
	t.Run("a_change_at_the_desk_names_the_operator", func(t *testing.T) {
		operator := h.User(t, "olga", h.account)
		line := store.AuditLine{What: store.AuditAdmin, Reason: "user disabled", By: store.By{Actor: store.Actor{OperatorID: operator.Subject()}}}
		shown := func() (newest map[string]any) {
			var page struct{ Data []map[string]any }
			a := h.admin(t, "GET", "/api/platform/audit?limit=500", "")
			must.Do(t, json.Unmarshal([]byte(a.body), &page))
			return page.Data[len(page.Data)-1]
		}
		h.admin(t, "POST", "/api/platform/users/"+h.UserID(t, "olga")+"/promote", "")
		if l := shown(); l["reason"] != "user promoted" || l["operator_id"] != nil || l["operator"] != nil {
			t.Errorf("a line from the socket = %v, want no operator", l)
		}
		h.Audit(line)
		if l := shown(); l["operator_id"] != operator.Subject() || l["operator"] != "olga" {
			t.Errorf("the line = %v, want the operator's id and name", l)
		}
		must.Do(t, h.DeleteUser(t.Context(), "olga"))
		if l := shown(); l["operator_id"] != operator.Subject() || l["operator"] != nil {
			t.Errorf("the line = %v, want the id of the deleted operator", l)
		}
	})
	t.Run("a_refused_change_is_none", func(t *testing.T) {
		if lines := h.recorded(t, func() { h.admin(t, "DELETE", "/api/platform/users/usr_00000000000000000000000000", "") }); len(lines) > 0 {
			t.Errorf("the record has %+v, want nothing", lines)
		}
	})
}

// about returns how many refusals or changes the lines are about.
func about(lines []store.AuditLine) (n int) {
	for _, l := range lines {
		n += max(l.Count, 1)
	}
	return n
}

// aMinuteLater returns the lines that a step adds at once, and the numbers that follow.
func (h *house) aMinuteLater(t testing.TB, step func()) (written, counts []store.AuditLine) {
	t.Helper()
	h.Clock.Advance(2 * time.Minute) // what was counted before is written
	h.audit(t)
	written = h.recorded(t, step)
	counts = h.recorded(t, func() { h.Clock.Advance(time.Minute) })
	for _, l := range counts {
		if l.Count == 0 || l.RequestID != "" {
			t.Errorf("line %+v a minute later, want a number of many requests", l)
		}
	}
	return written, counts
}

// TestAuditIsBounded: what costs a stranger little leaves a line and a number.
//
// Promise (Credentials, memory, connections): filling the audit record by refused codes and tokens
// of confidential clients, throttled attempts and denials
func TestAuditIsBounded(t *testing.T) {
	const requests = 200
	h := parallelHouse(t)
	public, none := h.Client(t, publicClient)
	for name, step := range map[string]func(){
		"garbage_by_a_public_client": func() { h.token(t, as(h.codeForm("x"), public, none)) },
		"throttled_names":            func() { h.stranger(t).signIn(t, "mara", tooLong) },
		"throttled_clients":          func() { h.token(t, url.Values{"client_id": {"x"}}) },
		"pages_of_other_sites":       func() { h.token(t, url.Values{"client_id": {"x"}}, header("Origin", "https://evil.example")) },
	} {
		t.Run(name, func(t *testing.T) {
			written, counts := h.aMinuteLater(t, func() {
				for range requests {
					step()
				}
			})
			// Ten wrong passwords of a known user are written one by one.
			if len(written) == 0 || len(written) > 12 || len(counts) == 0 || len(counts) > 2 {
				t.Errorf("%d requests leave %d lines and %d numbers, want a few", requests, len(written), len(counts))
			}
			if n := about(written) + about(counts); n != requests {
				t.Errorf("the lines are about %d requests, want %d", n, requests)
			}
		})
	}
}

// TestAuditOfRefusedTokensIsBounded: a confidential client that sends garbage cannot fill
// the disk, and a revocation of a family is recorded after any amount of it.
//
// Promise (Credentials, memory, connections): filling the audit record by refused codes and tokens
// of confidential clients, throttled attempts and denials
func TestAuditOfRefusedTokensIsBounded(t *testing.T) {
	const requests = 200
	h := parallelHouse(t).overTCP(t)
	var pair pair
	for name, form := range map[string]func() url.Values{
		"unknown_codes":          func() url.Values { return h.codeForm(secret.New(nil, secret.Code).Reveal()) },
		"unknown_refresh_tokens": func() url.Values { return h.refreshForm(secret.New(nil, secret.RefreshToken).Reveal()) },
		"garbage":                func() url.Values { return h.refreshForm("x") },
		"a_stolen_token_again": func() url.Values {
			if pair.RefreshToken == "" {
				pair = wantPair(t, h.token(t, h.passwordForm()))
				h.revoke(t, pair.RefreshToken)
			}
			return h.refreshForm(pair.RefreshToken)
		},
	} {
		t.Run(name, func(t *testing.T) {
			form() // its own lines are not of the refusals
			written, counts := h.aMinuteLater(t, func() {
				for range requests {
					if a := h.token(t, form()); a.StatusCode != http.StatusBadRequest {
						t.Fatalf("token = %d %s, want 400", a.StatusCode, a.body)
					}
				}
			})
			if len(written) != 1 || len(counts) != 1 || about(counts) != requests-1 {
				t.Fatalf("%d requests leave %+v and %+v, want a line and a number of the others", requests, written, counts)
			}
			if c := counts[0]; c.ClientID != h.client.ID || c.Reason != written[0].Reason || c.What != store.AuditRefused || c.Source != written[0].Source {
				t.Errorf("the number is %+v, want the client, reason and source of all", c)
			}
		})
	}
	t.Run("a_replay_behind_them_is_recorded", func(t *testing.T) {
		p := wantPair(t, h.token(t, h.passwordForm()))
		q := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
		wantPair(t, h.token(t, h.refreshForm(q.RefreshToken)))
		for range requests {
			h.token(t, h.refreshForm("x"))
		}
		lines := h.recorded(t, func() { h.token(t, h.refreshForm(p.RefreshToken)) })
		if len(lines) != 1 || lines[0].What != store.AuditRefreshReuse {
			t.Errorf("lines = %+v, want the replay", lines)
		}
	})
}

// TestRefusedSignInsOfAUserAreCounted: of a known user they are written one by one up to
// 200 a minute, and then a line has the user and the number. Readers of all kinds see it.
//
// Promise (Credentials, memory, connections): refused sign-ins of a user beyond 200 a minute are a
// number, which the API, the desk and the filters show; numbers appear at a stop, in a backup, and
// under a clock that stands still
func TestRefusedSignInsOfAUserAreCounted(t *testing.T) {
	const refused, most, ofClient = 230, 200, 10 // attempts that a client has for a name
	h, b := deskHouse(t)
	h.overTCP(t)
	var forms []url.Values
	for range refused / ofClient {
		c, sec := h.Client(t)
		forms = append(forms, with(as(h.passwordForm(), c, sec), "password", tooLong))
	}
	written, counts := h.aMinuteLater(t, func() {
		for i := range refused {
			wantTokenError(t, h.token(t, forms[i/ofClient]), http.StatusBadRequest, "invalid_grant")
		}
	})
	if len(written) != most || len(counts) != 1 {
		t.Fatalf("%d refused sign-ins leave %d lines and %+v, want %d and a number", refused, len(written), counts, most)
	}
	want := store.AuditLine{What: store.AuditLoginRefused, Reason: "wrong_password", By: store.By{Source: written[0].Source}, UserID: h.user.Subject(), Count: refused - most}
	if c := counts[0]; c.At.Sub(written[0].At) != time.Minute || c.ClientID != "" && c.ClientID == written[0].ClientID {
		t.Errorf("the number is %+v, want it a minute after %s and of no single client", c, written[0].At)
	} else if c.What != want.What || c.Reason != want.Reason || c.By != want.By || c.UserID != want.UserID || c.Count != want.Count {
		t.Errorf("the number is %+v, want %+v", c, want)
	}
	shown := h.auditOf(t, "user=mara&what=login_refused&source="+want.Source)
	if last := shown[len(shown)-1]; last.Count != want.Count || last.Username != "mara" || last.RequestID != "" || last.Why() != "wrong_password (30 times)" {
		t.Errorf("the API ends with %+v, want the number", last)
	}
	if page := b.get(t, "/desk/audit?user=mara&what=login_refused"); !strings.Contains(page.body, "wrong_password (30 times)") {
		t.Errorf("the desk does not show the number:\n%.3000s", page.body)
	}
}

// TestASignInIsRecordedWithItsSession: a sign-in that is not recorded is none.
//
// Promise (Credentials, memory, connections): a crash loses no accepted sign-in and no operator's
// change from the audit record; a store that is away loses no line, and refusals displace none
func TestASignInIsRecordedWithItsSession(t *testing.T) {
	h := parallelHouse(t)
	h.Rest() // nothing but the requests writes from now on
	b := h.browser(t)
	a := b.submit(t, b.get(t, "/login"), rightPassword...)
	must.Get(h.DisableUser(t.Context(), "mara"))(t)
	h.admin(t, "POST", "/api/platform/users/"+h.UserID(t, "mara")+"/enable", "")
	lines := must.Get(h.Reopened(t).ListAudit(t.Context(), record.Position{}, 10))(t) // as after a crash
	if len(lines) != 2 || lines[0].What != store.AuditLogin || lines[0].RequestID != a.Header.Get("X-Request-Id") || lines[1].Reason != "user enabled" {
		t.Errorf("after a crash the record has %+v, want the sign-in and the operator's change", lines)
	}
}

func TestAdminListAudit(t *testing.T) {
	h := parallelHouse(t)
	for range 5 {
		must.Get(h.DisableUser(t.Context(), "mara"))(t)
		h.admin(t, "POST", "/api/platform/users/"+h.UserID(t, "mara")+"/enable", "")
		h.admin(t, "POST", "/api/platform/users/"+h.UserID(t, "mara")+"/enable", "") // changes nothing
		h.Clock.Advance(time.Second)
	}
	read := func(query string) (ids []string, hasMore bool) {
		var page struct {
			Data    []map[string]string
			HasMore bool
		}
		a := h.admin(t, "GET", "/api/platform/audit"+query, "")
		if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("status = %d %s (%v)", a.StatusCode, a.body, err)
		}
		for _, line := range page.Data {
			if line["what"] != "admin" || line["reason"] != "user enabled" || line["user_id"] != h.user.Subject() || !strings.HasPrefix(line["request_id"], "req_") {
				t.Errorf("line = %v", line)
			}
			ids = append(ids, line["id"])
		}
		return ids, page.HasMore
	}
	all, _ := read("")
	var paged []string
	for query, more := "?limit=2", true; more; {
		var ids []string
		ids, more = read(query)
		paged = append(paged, ids...)
		query = "?limit=2&after=" + ids[len(ids)-1]
	}
	if len(all) != 5 || !slices.IsSorted(all) || !slices.Equal(all, paged) {
		t.Errorf("whole %v, paged %v; want five lines in order, each once", all, paged)
	}
	wantError(t, h.admin(t, "GET", "/api/platform/audit?after=x", ""), http.StatusBadRequest, "invalid_parameter")
}

// auditText is the audit log as text.
func (h *house) auditText(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, l := range h.audit(t) {
		fmt.Fprintf(&b, "%+v\n", l)
	}
	return b.String()
}

// TestDeniesFillNoAuditRecord: to deny costs a user nothing.
//
// Promise (Credentials, memory, connections): filling the audit record by refused codes and tokens
// of confidential clients, throttled attempts and denials
func TestDeniesFillNoAuditRecord(t *testing.T) {
	h := parallelHouse(t)
	b := h.signedIn(t, h.user)
	const times = 70
	written, counts := h.aMinuteLater(t, func() {
		for range times {
			b.submit(t, b.get(t, h.authURL()), "decision", "deny")
		}
	})
	if len(written) != 1 || written[0].What != store.AuditDenied || len(counts) != 1 || about(counts) != times-1 {
		t.Fatalf("%d denials left %+v and %+v, want a line and a number of the others", times, written, counts)
	}
	if c := counts[0]; c.UserID != h.user.Subject() || c.ClientID != h.client.ID || c.AccountID != h.account {
		t.Errorf("the number is %+v, want the user, the client and the account", c)
	}
}
