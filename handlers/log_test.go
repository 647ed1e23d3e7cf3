package handlers_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/dev"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
)

// shownInJournal are texts of callers that a masked journal of dev shows and a log does not.
var shownInJournal = []string{"state", "username", "query", "header", "path", "host", "method", "agent"}

// TestLogHoldsNoSecret walks every flow, right and wrong, and then searches the log and the
// audit log for each secret that was used.
//
// Promise (Attacks on operations): secrets in logs and audit; files beside the static ones
func TestLogHoldsNoSecret(t *testing.T) {
	t.Parallel()
	requests := dev.NewMaskedJournal()
	h := newHouse(t, func(c *handlers.Config) {
		c.Dev = &dev.Controls{Clock: dev.NewClock(dev.ClockState{Own: true}), Faults: dev.NewFaults(), Journal: requests}
	})
	secrets := map[string]string{
		"password": storetest.Password, "wrong password": "kanarienvogel-password", "client secret": h.secret.Reveal(),
		"wrong client secret": "kanarienvogel-secret", "state": "kanarienvogel-state", "username": "kanarienvogel-user",
		"query": "kanarienvogel-query", "header": "kanarienvogel-header", "path": "kanarienvogel-path", "host": "kanarienvogel.example",
		"method": "KANARIENVOGEL", "token": "kanarienvogel-token", "agent": "kanarienvogel-agent", "verifier": verifier,
	}
	agent := header("User-Agent", secrets["agent"])

	b := h.browser(t)
	page := b.get(t, h.authURL("state", secrets["state"], "code_challenge", challenge, "code_challenge_method", "S256"), agent)
	secrets["form token"], secrets["form cookie"] = formOn(t, page).fields.Get("form_token"), b.cookie("__Host-tollhouse_form")
	b.submit(t, page, "username", secrets["username"], "password", secrets["wrong password"])
	page = b.follow(t, b.submit(t, page, rightPassword...))
	secrets["session"], secrets["ticket"] = b.cookie(sessionCookie), formOn(t, page).fields.Get("ticket")
	code := callback(t, b.submit(t, page, "decision", "allow"), http.StatusSeeOther).Query().Get("code")
	b.submit(t, page, "decision", "allow")
	secrets["code"] = code
	secrets["new password"] = "kanarienvogel-new-password"
	account := b.passwordForm(t, secrets["wrong password"], secrets["new password"])
	secrets["account form token"] = account.Get("form_token")
	b.post(t, accountPassword, account)
	b.post(t, accountRevoke, with(account, "client_id", secrets["query"]))

	proof := with(h.codeForm(code), "code_verifier", verifier)
	h.token(t, with(proof, "code_verifier", secrets["token"]))
	p := wantPair(t, h.token(t, proof))
	q := wantPair(t, h.token(t, h.refreshForm(p.RefreshToken)))
	secrets["access token"], secrets["refresh token"], secrets["second access"], secrets["second refresh"] = p.AccessToken, p.RefreshToken, q.AccessToken, q.RefreshToken
	h.token(t, with(h.refreshForm(secrets["token"]), "client_secret", secrets["wrong client secret"]))
	h.token(t, with(h.passwordForm(), "username", secrets["username"]), basic(h.client.ID, secrets["wrong client secret"]))
	h.token(t, with(h.passwordForm(), "password", secrets["wrong password"], "scope", secrets["query"]))
	h.tokenBody(t, "application/json", `{"password":"`+secrets["wrong password"])
	h.do(h.request(t, "POST", tokenPath+"?client_secret="+secrets["wrong client secret"], nil))
	h.api(t, p.AccessToken, agent)
	h.api(t, secrets["token"])
	h.get(t, apiPath+"?access_token="+q.AccessToken+"&type="+secrets["query"])
	h.get(t, "/"+secrets["path"]+"?"+secrets["query"])
	h.get(t, "/", func(r *http.Request) { r.Host = secrets["host"] })
	h.get(t, "/", header("X-Forwarded-For", secrets["header"]), header("Referer", secrets["header"]), header("X-Request-Id", secrets["header"]))
	h.do(h.request(t, secrets["method"], "/", nil))
	h.get(t, h.authURL("client_id", secrets["query"], "redirect_uri", "https://"+secrets["host"]))
	for _, of := range []string{p.AccessToken, q.RefreshToken, secrets["session"], secrets["client secret"], secrets["token"]} {
		h.admin(t, "POST", "/admin/token-inspect", `{"token":"`+of+`"}`)
	}
	h.admin(t, "POST", "/admin/token-revoke", `{"token":"`+secrets["token"]+`"}`)
	h.audit(t) // writes pending lines, which a broken store would lose
	for _, fault := range []error{record.ErrUnavailable, record.ErrCorrupt, record.ErrUnknownOutcome, errFault} {
		h.Faults.Break(fault)
		h.token(t, h.refreshForm(q.RefreshToken))
		h.api(t, q.AccessToken)
		b.get(t, h.authURL("state", secrets["state"]))
		h.Faults.Repair()
	}
	h.Rest() // otherwise the panic could hit the recording of a use
	h.Faults.OnUpdate(func(func() error) error { panic("a mistake of our own") })
	broken := h.token(t, h.refreshForm(q.RefreshToken))
	h.Faults.Repair()
	wantTokenError(t, broken, http.StatusInternalServerError, "server_error")
	wantTokenError(t, h.token(t, with(proof, "redirect_uri", storetest.CallbackURI)), http.StatusBadRequest, "invalid_grant")

	log, record := h.log.String(), h.auditText(t)
	if lines := strings.Count(record, "\n"); lines < 5 {
		t.Errorf("the audit record has %d lines, want those of the walk", lines)
	}
	found, count, _ := requests.Find(dev.Filter{}, dev.EntriesMax)
	if count < 30 {
		t.Errorf("the journal has %d requests, want those of the walk", count)
	}
	journal := fmt.Sprintf("%s", found)
	for name, secret := range secrets {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			if secret == "" {
				t.Fatal("the walk never had this secret")
			}
			for _, form := range []string{secret, url.QueryEscape(secret), secret[:len(secret)*2/3]} {
				if strings.Contains(log, form) {
					t.Errorf("the log holds the %s", name)
				}
				if strings.Contains(record, form) {
					t.Errorf("the audit record holds the %s", name)
				}
			}
			if !slices.Contains(shownInJournal, name) && (strings.Contains(journal, secret) || strings.Contains(journal, url.QueryEscape(secret))) {
				t.Errorf("the masked journal holds the %s", name)
			}
		})
	}
	t.Run("one_line_a_request_with_its_facts", func(t *testing.T) { wantLogLines(t, log, h) })
}

// wantLogLines checks that the log is useful: it names what happened, and to whom.
func wantLogLines(t *testing.T, log string, h *house) {
	t.Helper()
	grants, panics := map[string]int{}, 0
	for line := range strings.Lines(log) {
		var facts map[string]any
		if err := json.Unmarshal([]byte(line), &facts); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if facts["msg"] != "request served" {
			continue
		}
		for _, key := range []string{"request_id", "method", "route", "status", "duration_ms"} {
			if facts[key] == nil {
				t.Errorf("%s lacks %s", line, key)
			}
		}
		if grant, ok := facts["grant_type"].(string); ok && facts["status"] == 200.0 {
			grants[grant]++
			if facts["client_id"] != h.client.ID || facts["user_id"] != h.user.Subject() || facts["family_id"] == nil || facts["account_id"] != h.account {
				t.Errorf("%s lacks whom the token is for", line)
			}
		}
		if text, _ := facts["err"].(string); strings.Contains(text, "a mistake of our own") {
			panics++
		}
	}
	if grants["authorization_code"] == 0 || grants["refresh_token"] == 0 || panics != 1 {
		t.Errorf("the log has grants %v and %d panics, want both grants and one panic", grants, panics)
	}
}

// TestAFaultBehindAStatusIsLogged: an import answers with 200 before it fails. Commands without a
// server print what is logged as a warning or worse, and so the cause.
func TestAFaultBehindAStatusIsLogged(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.Rest()
	h.Faults.OnUpdate(func(func() error) error { return errFault })
	r := httptest.NewRequest(http.MethodPost, "/admin/events/import?account="+h.account, strings.NewReader(`{"type":"plan.created","createdAt":1,"resource":"p1","eventData":{"object":{}}}`))
	r.Header.Set("Content-Type", "application/x-ndjson")
	w := httptest.NewRecorder()
	h.operators.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"server_error"`) {
		t.Fatalf("an import that fails: %d %s", w.Code, w.Body)
	}
	lines := strings.Split(strings.TrimSpace(h.log.String()), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(last, `"level":"ERROR"`) || !strings.Contains(last, errFault.Error()) {
		t.Errorf("the last line of the log is %s, want an error with its cause", last)
	}
}
