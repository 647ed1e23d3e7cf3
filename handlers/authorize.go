package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/store"
	"tollhouse/store/record"
)

// authRequest is a valid authorization request (RFC 6749 §4.1.1): its client is known
// and its redirect URI is registered.
type authRequest struct {
	client      store.Client
	redirectURI string
	state       string
	scope       store.Scope
	challenge   string // RFC 7636, S256; "" without one
	prompts     []string
	maxAge      time.Duration // since the sign-in; negative without a limit
	query       string        // as it came
}

const (
	stateSizeMax  = 2 << 10 // bytes
	challengeSize = 43      // base64url of a SHA-256
)

// authParams are the parameters of the authorization endpoint; the first repeated
// one is reported.
var authParams = []string{"client_id", "redirect_uri", "response_type", "scope", "state", "code_challenge", "code_challenge_method", "prompt", "max_age"}

// authorize is GET /oauth/v2/auth. It shows the sign-in screen, or the consent
// screen if the browser is signed in. Unless consent is remembered it stores nothing: the
// state travels in the forms.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) error {
	a, refusal, err := s.parseAuthRequest(r.Context(), r.URL.RawQuery)
	if err != nil {
		return err
	}
	if refusal != nil {
		s.refuse(w, r, a, refusal)
		return nil
	}
	session, err := s.session(r)
	if err == nil && s.demo != nil {
		session, err = s.signInUnasked(w, r, &a, session)
	}
	if err != nil {
		return err
	}
	unseen := a.hasPrompt("none")
	if s.mustSignIn(a, session) {
		if unseen {
			s.refuse(w, r, a, newProblem(http.StatusBadRequest, "login_required", "The user must sign in."))
			return nil
		}
		return s.showLogin(w, r, loginScreen{request: &a, query: a.query})
	}
	if s.demo != nil && s.demo.AutoConsent && r.Method == http.MethodGet {
		return s.allowUnasked(w, r, a, session)
	}
	if done, err := s.allowRemembered(w, r, a, session); err != nil || done {
		return err
	}
	if unseen {
		s.refuse(w, r, a, newProblem(http.StatusBadRequest, "consent_required", "The user must be asked for consent."))
		return nil
	}
	return s.showConsent(w, r, a, session)
}

// refuse tells the client by redirect.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, a authRequest, refusal *problem) {
	noteProblem(r.Context(), refusal)
	s.redirectError(w, r, a, refusal.code, refusal.description)
}

// mustSignIn reports whether the sign-in is missing or too old for the request (RFC 9470
// §4: max_age).
func (s *Server) mustSignIn(a authRequest, session *browserSession) bool {
	return session == nil || a.hasPrompt("login") || a.maxAge >= 0 && s.store.Now().Sub(session.AuthenticatedAt) >= a.maxAge
}

func (a authRequest) hasPrompt(value string) bool { return slices.Contains(a.prompts, value) }

// parseAuthRequest parses and checks a query. An error is shown to the person at
// the browser, who must not be redirected to an unchecked address. A refusal goes
// to the client's registered address.
func (s *Server) parseAuthRequest(ctx context.Context, query string) (authRequest, *problem, error) {
	p, refused := parseOAuthParams(query)
	if refused == nil && strings.ContainsFunc(query, isControlOrSpace) {
		refused = invalidRequest("The query contains a character that is not allowed in a URL.")
	}
	if refused != nil {
		return authRequest{}, nil, refused.asPage(badRequestPage("The link you followed is malformed."))
	}
	client, err := s.clientOf(ctx, p)
	if err != nil {
		return authRequest{}, nil, err
	}
	redirectURI, err := s.redirectURIOf(client, p)
	if err != nil {
		return authRequest{}, nil, err
	}
	a := authRequest{client: client, redirectURI: redirectURI, state: p.value("state"), prompts: strings.Fields(p.value("prompt")), maxAge: -1, query: query}
	return a, a.judge(p), nil
}

// isControlOrSpace matches what browsers never send in a query and a redirect must
// not repeat.
func isControlOrSpace(r rune) bool { return r <= ' ' || r == 0x7f }

// clientOf returns the client of the request. RFC 6749 §3.1.2.4: an invalid client
// or redirect URI never leads to a redirect.
func (s *Server) clientOf(ctx context.Context, p params) (store.Client, error) {
	if p.repeated["client_id"] || !p.has("client_id") {
		problem := invalidRequest("The parameter client_id must be given exactly once.").on("client_id")
		return store.Client{}, problem.asPage(badRequestPage("The link you followed does not name exactly one application."))
	}
	client, err := s.store.FindClient(ctx, p.value("client_id"))
	if err == nil && client.DisabledAt.IsZero() {
		return client, nil
	}
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return store.Client{}, err
	}
	problem := newProblem(http.StatusBadRequest, "invalid_client", "The client is unknown or disabled.").on("client_id")
	return store.Client{}, problem.asPage(pageText{
		title:        "Unknown application",
		message:      "The application that sent you is not registered with this server, or it has been disabled. You did nothing wrong.",
		next:         "Go back to the application and show its developers the details below.",
		details:      []detail{{"client_id", shownWord(p.value("client_id"), store.ClientIDSizeMax)}},
		forDeveloper: "Use the client_id that was printed when the client was created, on the server that created it.",
		command:      "tollhouse client list",
	})
}

func (s *Server) redirectURIOf(client store.Client, p params) (string, error) {
	uri := p.value("redirect_uri")
	if p.repeated["redirect_uri"] || uri == "" {
		problem := invalidRequest("The parameter redirect_uri must be given exactly once.").on("redirect_uri")
		return "", problem.asPage(badRequestPage("The link from " + client.Name + " does not name exactly one address to return you to."))
	}
	if client.RedirectsTo(uri) {
		return uri, nil
	}
	problem := invalidRequest("The redirect_uri is not registered for this client.").on("redirect_uri")
	return "", problem.asPage(pageText{
		title:        "Unregistered redirect address",
		message:      client.Name + " tried to send you to an address that it has not registered, so you were not sent there. You did nothing wrong.",
		next:         "Go back to the application and show its developers the details below.",
		details:      []detail{{"redirect_uri", shownWord(uri, store.RedirectURISizeMax)}},
		forDeveloper: "The redirect_uri must match a registered one byte for byte; only the port of an http loopback address may differ. If this one is yours, register it.",
		command:      fmt.Sprintf("tollhouse client update %s --add-redirect-uri %s", client.ID, shellQuote(uri)),
	})
}

// judge returns the client's first mistake, in the order of RFC 6749 §4.1.2.1.
func (a *authRequest) judge(p params) *problem {
	if refused := p.refuseRepeated(authParams...); refused != nil {
		if p.repeated["state"] {
			a.state = "" // either could be the client's
		}
		return refused
	}
	if len(a.state) > stateSizeMax {
		a.state = ""
		return invalidRequest("The parameter state is longer than %d bytes.", stateSizeMax)
	}
	switch p.value("response_type") {
	case "code":
	case "":
		return invalidRequest("The parameter response_type is missing; it must be code.")
	default:
		return newProblem(http.StatusBadRequest, "unsupported_response_type", "response_type must be code.")
	}
	if !a.client.Allows(store.GrantAuthorizationCode) {
		return newProblem(http.StatusBadRequest, "unauthorized_client", "The client may not use the authorization code grant.")
	}
	if refused := a.judgeChallenge(p); refused != nil {
		return refused
	}
	scope, err := grantScope(a.client, p.value("scope"))
	if err != nil {
		return asProblem(err)
	}
	a.scope = scope
	return a.judgePrompt(p)
}

// judgePrompt reads prompt and max_age as OpenID Connect Core §3.1.2.1 defines them. Other
// values of prompt are ignored.
func (a *authRequest) judgePrompt(p params) *problem {
	if a.hasPrompt("none") && len(a.prompts) > 1 {
		return invalidRequest("prompt=none cannot be combined with other values.")
	}
	if !p.has("max_age") {
		return nil
	}
	seconds, err := strconv.ParseUint(p.value("max_age"), 10, 32)
	if err != nil {
		return invalidRequest("The parameter max_age must be a number of seconds.")
	}
	a.maxAge = time.Duration(seconds) * time.Second
	return nil
}

// judgeChallenge is RFC 7636 §4.3 and §4.4.1. Only S256 is supported: plain protects
// against no leak.
func (a *authRequest) judgeChallenge(p params) *problem {
	a.challenge = p.value("code_challenge")
	method := p.value("code_challenge_method")
	switch {
	case a.challenge == "" && method != "":
		return invalidRequest("The parameter code_challenge_method requires code_challenge.")
	case a.challenge == "" && a.client.Public:
		return invalidRequest("A public client must send code_challenge with code_challenge_method S256.")
	case a.challenge == "":
		return nil
	case method != "S256":
		return invalidRequest("code_challenge_method must be S256.")
	case len(a.challenge) != challengeSize || strings.IndexFunc(a.challenge, isNotBase64URL) >= 0:
		return invalidRequest("code_challenge must be a SHA-256 in base64url: 43 characters.")
	}
	return nil
}

func isNotBase64URL(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// toSignIn is the query of the request with a sign-in first.
func (a authRequest) toSignIn() string { return a.withPrompts(append(a.promptsLeft(), "login")) }

// afterSignIn is the query of the request without what a sign-in fulfils.
func (a authRequest) afterSignIn() string { return a.withPrompts(a.promptsLeft()) }

func (a authRequest) promptsLeft() []string {
	return slices.DeleteFunc(slices.Clone(a.prompts), func(p string) bool { return p == "login" || p == "select_account" })
}

func (a authRequest) withPrompts(prompts []string) string {
	var kept []string
	for pair := range strings.SplitSeq(a.query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(name); err != nil || decoded != "prompt" && decoded != "max_age" {
			kept = append(kept, pair)
		}
	}
	if len(prompts) > 0 {
		kept = append(kept, "prompt="+url.QueryEscape(strings.Join(prompts, " ")))
	}
	return strings.Join(kept, "&")
}

// shellWord quotes text if a shell would not take it for one word.
func shellWord(text string) string {
	if isPlainWord(text) {
		return text
	}
	return shellQuote(text)
}

func isPlainWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c != '_' && c != '-' && c != '.' && c != '@' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}

// shellQuote quotes text as one shell word.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
