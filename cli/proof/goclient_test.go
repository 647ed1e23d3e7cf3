package proof

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// TestGoClient is what golang.org/x/oauth2 does beyond the walk: to find out by
// itself how to authenticate, to be a public client, and to tell refusals apart.
//
// Promise (RFC 6749 §2.3): another scheme, or an empty header, is ignored where the body has
// credentials; alone it is a 401 that names the scheme
func TestGoClient(t *testing.T) {
	t.Parallel()
	s := startDev(t)
	confidential := s.createClient("Larkspur Bookkeeping", callbackURI)
	var public credentials
	decode(t, s.run("client", "create", "--name", "Tollbooth App", "--redirect-uri", callbackURI, "--public", "--json"), &public)

	for _, c := range []struct {
		name   string
		client credentials
		style  oauth2.AuthStyle
	}{
		{"confidential_by_header", confidential, oauth2.AuthStyleInHeader},
		{"confidential_by_body", confidential, oauth2.AuthStyleInParams},
		{"confidential_as_it_finds_out", confidential, oauth2.AuthStyleAutoDetect},
		{"public_by_body", public, oauth2.AuthStyleInParams},
		{"public_as_it_finds_out", public, oauth2.AuthStyleAutoDetect},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := &goClient{t: t, s: s.in(t), visitor: newVisitor(t), config: &oauth2.Config{
				ClientID: c.client.ID, ClientSecret: c.client.Secret, RedirectURL: callbackURI, Scopes: []string{"events:read"},
				Endpoint: oauth2.Endpoint{AuthURL: s.base + "/oauth/v2/auth", TokenURL: s.base + "/oauth/v2/token", AuthStyle: c.style},
			}}
			g.walk()
			if c.client.Secret != "" {
				g.guess()
			}
		})
	}
}

// goClient is a program that uses the library.
type goClient struct {
	t       *testing.T
	s       *server
	config  *oauth2.Config
	visitor *visitor
}

// walk is a code with PKCE, the API, rotation, and a replay that ends it all.
func (g *goClient) walk() {
	first := g.byCode()
	second := g.refresh(first)
	if again := g.refresh(first); again.AccessToken != second.AccessToken || again.RefreshToken != second.RefreshToken {
		g.t.Error("a repeated refresh gave another pair, want the identical one")
	}
	third := g.refresh(second)
	_, err := g.source(first).Token()
	g.wantCode("replay", err, "invalid_grant")
	_, err = g.source(third).Token()
	g.wantCode("after a replay", err, "invalid_grant")

	verifier := oauth2.GenerateVerifier()
	arrived := g.visitor.allow(g.visitor.open(g.config.AuthCodeURL("again", oauth2.S256ChallengeOption(verifier))))
	token, err := g.config.Exchange(g.t.Context(), arrived.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		g.t.Fatal(err)
	}
	g.revoke(token)

	asked := g.config.AuthCodeURL("no", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	refused := mustParse(g.t, g.visitor.submit(g.visitor.open(asked), "decision", "deny").location).Query()
	if refused.Get("error") != "access_denied" || refused.Get("iss") != g.s.ready.URL || refused.Has("code") {
		g.t.Errorf("deny leads on with %v", refused)
	}
}

// revoke sends the client's credentials in the body, through the library's transport,
// which adds the access token.
func (g *goClient) revoke(token *oauth2.Token) {
	g.t.Helper()
	form := url.Values{"token": {token.RefreshToken}, "client_id": {g.config.ClientID}}
	if g.config.ClientSecret != "" {
		form.Set("client_secret", g.config.ClientSecret)
	}
	answer, err := g.config.Client(g.t.Context(), token).PostForm(g.s.base+"/oauth/v2/revoke", form)
	if err != nil {
		g.t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		g.t.Errorf("a revocation through the session = %s, want 200", answer.Status)
	}
	_, err = g.source(token).Token()
	g.wantCode("after a revocation", err, "invalid_grant")
}

func (g *goClient) byCode() *oauth2.Token {
	g.t.Helper()
	verifier := oauth2.GenerateVerifier()
	address := g.config.AuthCodeURL("state of odile", oauth2.S256ChallengeOption(verifier))
	arrived := g.visitor.allow(g.visitor.signIn(address, g.s.ready.Username, g.s.ready.Password)).Query()
	if arrived.Get("iss") != g.s.ready.URL || arrived.Get("state") != "state of odile" {
		g.t.Errorf("allow leads on with %v", arrived)
	}
	_, err := g.config.Exchange(g.t.Context(), arrived.Get("code"), oauth2.VerifierOption(oauth2.GenerateVerifier()))
	g.wantCode("another verifier", err, "invalid_grant")
	token, err := g.config.Exchange(g.t.Context(), arrived.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		g.t.Fatal(err)
	}
	if token.Type() != "Bearer" || token.Extra("scope") != "events:read" || !token.Valid() {
		g.t.Errorf("token of type %s with scope %v, valid: %v", token.Type(), token.Extra("scope"), token.Valid())
	}
	g.read(token)
	return token
}

// source is the library's own, told that the token has expired.
func (g *goClient) source(token *oauth2.Token) oauth2.TokenSource {
	old := *token
	old.Expiry = time.Unix(1, 0)
	return g.config.TokenSource(g.t.Context(), &old)
}

func (g *goClient) refresh(token *oauth2.Token) *oauth2.Token {
	g.t.Helper()
	next, err := g.source(token).Token()
	if err != nil {
		g.t.Fatal(err)
	}
	return next
}

// read calls the API through the library's transport.
func (g *goClient) read(token *oauth2.Token) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), requestWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, g.s.base+"/api/events?limit=1", nil)
	if err != nil {
		g.t.Fatal(err)
	}
	if a, err := exchange(g.config.Client(ctx, token), r); err != nil || a.status != http.StatusOK {
		g.t.Errorf("the API answers %s, %v", a, err)
	}
}

// guess is a program that was given a wrong secret, or a wrong password.
func (g *goClient) guess() {
	wrong := *g.config
	wrong.ClientSecret = "not the secret"
	_, err := wrong.PasswordCredentialsToken(g.t.Context(), g.s.ready.Username, g.s.ready.Password)
	g.wantCode("wrong secret", err, "invalid_client")
	_, err = g.config.PasswordCredentialsToken(g.t.Context(), g.s.ready.Username, "not the password")
	g.wantCode("wrong password", err, "invalid_grant")
	if _, err = g.config.PasswordCredentialsToken(g.t.Context(), g.s.ready.Username, g.s.ready.Password); err != nil {
		g.t.Errorf("password grant: %v", err)
	}
}

// wantCode holds a refusal to what the library finds in it.
func (g *goClient) wantCode(what string, err error, want string) {
	g.t.Helper()
	refusal, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || refusal.ErrorCode != want || refusal.ErrorDescription == "" {
		g.t.Errorf("%s: %v, want %s with a description", what, err, want)
	}
}
