package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/views"
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
	query       string        // as it was sent
}

const (
	stateSizeMax  = 2 << 10 // bytes
	challengeSize = 43      // base64url of a SHA-256
)

// authParams are the parameters of the authorization endpoint; the first repeated
// one is reported.
var authParams = []string{"client_id", "redirect_uri", "response_type", "scope", "state",
	"code_challenge", "code_challenge_method", "prompt", "max_age", "response_mode"}

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
	session, err := s.site.Session(r)
	if err == nil && s.site.Demo != nil {
		session, err = s.signInUnasked(w, r, &a, session)
	}
	if err != nil {
		return err
	}
	unseen := a.hasPrompt("none")
	if a.mustSignIn(session, s.site.Store.Now()) {
		if unseen {
			s.refuse(w, r, a, web.NewProblem(http.StatusBadRequest, "login_required", "The user must sign in."))
			return nil
		}
		return s.showLogin(w, r, loginScreen{request: &a, done: s.site.TakeDone(w, r)})
	}
	if s.site.Demo != nil && s.site.Demo.AutoConsent && r.Method == http.MethodGet {
		return s.allowUnasked(w, r, a, session)
	}
	if done, err := s.allowRemembered(w, r, a, session); err != nil || done {
		return err
	}
	if unseen {
		s.refuse(w, r, a, web.NewProblem(http.StatusBadRequest, "consent_required", "The user must be asked for consent."))
		return nil
	}
	return s.showConsent(w, r, a, session, consentScreen{})
}

// refuse tells the client by redirect.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, a authRequest, refusal *web.Problem) {
	web.NoteProblem(r.Context(), refusal)
	a.redirectError(w, s.site.IssuerOf(r), refusal.Code, refusal.Description)
}

// mustSignIn reports whether the sign-in is missing or too old for the request (RFC 9470
// §4: max_age).
func (a authRequest) mustSignIn(session *web.BrowserSession, now time.Time) bool {
	return session == nil || a.hasPrompt("login") || a.maxAge >= 0 && now.Sub(session.AuthenticatedAt) >= a.maxAge
}

func (a authRequest) hasPrompt(value string) bool { return slices.Contains(a.prompts, value) }

// parseAuthRequest parses and checks a query. An error is shown to the person at
// the browser, who must not be redirected to an unchecked address. A refusal goes
// to the client's registered address.
func (s *Server) parseAuthRequest(ctx context.Context, query string) (authRequest, *web.Problem, error) {
	p, refused := web.ParseOAuthParams(query)
	if refused == nil && strings.ContainsFunc(query, isControlOrSpace) {
		refused = web.InvalidRequest("The query contains a character that is not allowed in a URL.")
	}
	if refused != nil {
		return authRequest{}, nil, refused.AsPage(views.ErrorText{Kind: views.ErrorLink})
	}
	client, err := s.clientOf(ctx, p)
	if err != nil {
		return authRequest{}, nil, err
	}
	redirectURI, err := s.redirectURIOf(client, p)
	if err != nil {
		return authRequest{}, nil, err
	}
	a := authRequest{client: client, redirectURI: redirectURI, state: p.Value("state"),
		prompts: strings.Fields(p.Value("prompt")), maxAge: -1, query: query}
	return a, a.check(p), nil
}

// isControlOrSpace matches what browsers never send in a query and a redirect must
// not repeat.
func isControlOrSpace(r rune) bool { return r <= ' ' || r == 0x7f }

// clientOf returns the client of the request. RFC 6749 §3.1.2.4: an invalid client
// or redirect URI never leads to a redirect.
func (s *Server) clientOf(ctx context.Context, p web.Params) (store.Client, error) {
	if p.Repeated["client_id"] || !p.Has("client_id") {
		problem := web.InvalidRequest("The parameter client_id must be given exactly once.").On("client_id")
		return store.Client{}, problem.AsPage(views.ErrorText{Kind: views.ErrorLinkNoClient})
	}
	client, err := s.site.Store.FindClient(ctx, p.Value("client_id"))
	if err == nil && client.DisabledAt.IsZero() {
		return client, nil
	}
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return store.Client{}, err
	}
	problem := web.NewProblem(http.StatusBadRequest, "invalid_client",
		"The client is unknown or disabled.").On("client_id")
	return store.Client{}, problem.AsPage(views.ErrorText{
		Kind: views.ErrorClient, Sent: web.SentWord("client_id", p.Value("client_id"), store.ClientIDSizeMax),
		Command: s.Command("tollhouse client list"),
	})
}

func (s *Server) redirectURIOf(client store.Client, p web.Params) (string, error) {
	uri := p.Value("redirect_uri")
	if p.Repeated["redirect_uri"] || uri == "" {
		problem := web.InvalidRequest("The parameter redirect_uri must be given exactly once.").On("redirect_uri")
		return "", problem.AsPage(views.ErrorText{Kind: views.ErrorLinkNoRedirect, Client: client.Name})
	}
	if client.RedirectsTo(uri) {
		return uri, nil
	}
	if fault := store.RedirectURIFault(uri); fault != "" {
		problem := web.InvalidRequest("The redirect_uri %s.", fault).On("redirect_uri")
		return "", problem.AsPage(views.ErrorText{
			Kind: views.ErrorRedirectMalformed, Client: client.Name,
			Sent: web.SentWord("redirect_uri", uri, store.RedirectURISizeMax), Fault: fault,
		})
	}
	problem := web.InvalidRequest("The redirect_uri is not registered for this client.").On("redirect_uri")
	page := views.ErrorText{Kind: views.ErrorRedirectUnknown, Client: client.Name,
		Sent: web.SentWord("redirect_uri", uri, store.RedirectURISizeMax)}
	var unsound *record.InvalidError
	if errors.As(store.CheckRedirectURI(uri), &unsound) {
		page.Fault = unsound.Reason
	} else {
		page.Command = s.Command(addRedirectURI(client.ID, uri))
	}
	return "", problem.AsPage(page)
}

// check returns the client's first mistake, in the order of RFC 6749 §4.1.2.1.
func (a *authRequest) check(p web.Params) *web.Problem {
	if refused := p.RefuseRepeated(authParams...); refused != nil {
		if p.Repeated["state"] {
			a.state = "" // either could be the client's
		}
		return refused
	}
	if len(a.state) > stateSizeMax {
		a.state = ""
		return web.InvalidRequest("The parameter state is longer than %d bytes.", stateSizeMax)
	}
	switch p.Value("response_type") {
	case "code":
	case "":
		return web.InvalidRequest("The parameter response_type is missing; it must be code.")
	default:
		return web.NewProblem(http.StatusBadRequest, "unsupported_response_type", "response_type must be code.")
	}
	// OAuth 2.0 Multiple Response Type Encoding Practices §2.1. A client that waits for its
	// answer elsewhere would never get one.
	if p.Has("response_mode") && p.Value("response_mode") != "query" {
		return web.InvalidRequest("response_mode must be query.")
	}
	if !a.client.Allows(store.GrantAuthorizationCode) {
		return web.NewProblem(http.StatusBadRequest, "unauthorized_client",
			"The client may not use the authorization code grant.")
	}
	if refused := a.checkChallenge(p); refused != nil {
		return refused
	}
	scope, err := GrantScope(a.client, p.Value("scope"))
	if err != nil {
		return web.AsProblem(err)
	}
	a.scope = scope
	return a.checkPrompt(p)
}

// checkPrompt reads prompt and max_age as OpenID Connect Core §3.1.2.1 defines them. Other
// values of prompt are ignored.
func (a *authRequest) checkPrompt(p web.Params) *web.Problem {
	if a.hasPrompt("none") && len(a.prompts) > 1 {
		return web.InvalidRequest("prompt=none cannot be combined with other values.")
	}
	if !p.Has("max_age") {
		return nil
	}
	seconds, err := strconv.ParseUint(p.Value("max_age"), 10, 32)
	if err != nil {
		return web.InvalidRequest("The parameter max_age must be a number of seconds.")
	}
	a.maxAge = time.Duration(seconds) * time.Second
	return nil
}

// checkChallenge is RFC 7636 §4.3 and §4.4.1. Only S256 is supported: plain protects
// against no leak.
func (a *authRequest) checkChallenge(p web.Params) *web.Problem {
	a.challenge = p.Value("code_challenge")
	method := p.Value("code_challenge_method")
	switch {
	case a.challenge == "" && method != "":
		return web.InvalidRequest("The parameter code_challenge_method requires code_challenge.")
	case a.challenge == "" && a.client.Public:
		return web.InvalidRequest("A public client must send code_challenge with code_challenge_method S256.")
	case a.challenge == "":
		return nil
	case method != "S256":
		return web.InvalidRequest("code_challenge_method must be S256.")
	case len(a.challenge) != challengeSize || strings.IndexFunc(a.challenge, isNotBase64URL) >= 0:
		return web.InvalidRequest("code_challenge must be a SHA-256 in base64url: 43 characters.")
	}
	return nil
}

func isNotBase64URL(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_')
}

// toSignIn is where the request begins with a sign-in.
func (a authRequest) toSignIn() string { return a.address(append(a.promptsLeft(), "login")) }

// afterSignIn is where the request continues without what a sign-in fulfils.
func (a authRequest) afterSignIn() string { return a.address(a.promptsLeft()) }

func (a authRequest) promptsLeft() []string {
	return slices.DeleteFunc(slices.Clone(a.prompts), func(p string) bool { return p == "login" || p == "select_account" })
}

// address is the request with other prompts and no max_age.
func (a authRequest) address(prompts []string) string {
	kept := a.pairs("prompt", "max_age")
	if len(prompts) > 0 {
		kept = append(kept, "prompt="+url.QueryEscape(strings.Join(prompts, " ")))
	}
	return "/oauth/v2/auth?" + strings.Join(kept, "&")
}

// kept is the query without what has no meaning here. Our addresses repeat no more of it:
// they stay in the browser's history and the logs of proxies, and proxies limit their size.
func (a authRequest) kept() string { return strings.Join(a.pairs(), "&") }

// pairs returns the parameters of the query that have a meaning here, as they were sent.
func (a authRequest) pairs(except ...string) (kept []string) {
	for pair := range strings.SplitSeq(a.query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		decoded, err := url.QueryUnescape(name)
		if err == nil && value != "" && slices.Contains(authParams, decoded) && !slices.Contains(except, decoded) {
			kept = append(kept, pair)
		}
	}
	return kept
}

func addRedirectURI(clientID, uri string) string {
	flag := "--add-redirect-uri " + web.ShellQuote(uri)
	if strings.HasPrefix(clientID, "-") {
		return "tollhouse client update " + flag + " " + web.ShellOperand(clientID)
	}
	return "tollhouse client update " + web.ShellOperand(clientID) + " " + flag
}
