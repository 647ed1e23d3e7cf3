package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// The model of codes and tokens, without keys, records, nonces or transactions; refreshes
// are judged by storetest.RefreshState. Random histories run against the model and the
// store, and must have the same outcome. TestSimulation drives it too, and loses answers.

// judge is what a step needs of a test: of package testing and of package rapid.
type judge interface {
	must.T
	Fatalf(format string, args ...any)
}

type modelFamily struct {
	client  int
	ends    time.Time
	revoked bool
	dead    bool // its client or user was ended
	refresh []*modelRefresh
	access  []*modelAccess
}

type modelRefresh struct {
	token   secret.Token
	family  *modelFamily
	expires time.Time
	retired bool
	pair    *modelPair // what replaced it; nil while it is unspent
}

type modelPair struct {
	issued store.Issued
	made   time.Time
	access *modelAccess
	next   *modelRefresh
	used   bool
	stored bool // that it was used survives a crash
}

type modelAccess struct {
	token   secret.Token
	family  *modelFamily
	expires time.Time
	made    *modelPair // nil for the first of a family
	deleted bool
}

type modelCode struct {
	token   secret.Token
	client  int
	pkce    bool
	expires time.Time
	used    time.Time
	family  *modelFamily
	dead    bool // its client or user was ended
	gone    bool // its user revoked it
}

// history is one run: the store, and what the model knows.
type history struct {
	f        *storetest.Fixture
	clients  []store.Client
	families []*modelFamily
	refresh  []*modelRefresh
	access   []*modelAccess
	codes    []*modelCode
	given    map[int]time.Time // when the user last allowed a client that remembers it
	random   secret.Source     // of tickets

	losesAnswers bool // an Update may end without an outcome
	committed    bool // the last one that did was committed
}

const modelUser = "mara"

func (h *history) user(t judge) store.User {
	u := must.Get(h.f.FindUser(context.Background(), modelUser))(t)
	return u
}

func (h *history) begin(client int, issued store.Issued) *modelFamily {
	now := h.f.Now()
	fam := &modelFamily{client: client, ends: now.Add(lives.Family)}
	h.families = append(h.families, fam)
	h.addRefresh(fam, issued.RefreshToken)
	h.addAccess(fam, nil, issued.AccessToken)
	return fam
}

func (h *history) addRefresh(fam *modelFamily, token secret.Token) *modelRefresh {
	r := &modelRefresh{family: fam, expires: earlier(h.f.Now().Add(lives.RefreshToken), fam.ends)}
	fam.refresh = append(fam.refresh, r)
	h.learn(r, token)
	return r
}

func (h *history) addAccess(fam *modelFamily, made *modelPair, token secret.Token) *modelAccess {
	a := &modelAccess{family: fam, expires: earlier(h.f.Now().Add(lives.AccessToken), fam.ends), made: made}
	fam.access = append(fam.access, a)
	h.learnAccess(a, token)
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// learn adds a token to those that callers know. They never see a lost one.
func (h *history) learn(r *modelRefresh, token secret.Token) {
	if r.token = token; !token.IsZero() {
		h.refresh = append(h.refresh, r)
	}
}

func (h *history) learnAccess(a *modelAccess, token secret.Token) {
	if a.token = token; !token.IsZero() {
		h.access = append(h.access, a)
	}
}

// lost reports whether the caller learned no outcome, and if so, whether the Update was
// committed.
func (h *history) lost(err error) (lost, committed bool) {
	lost = h.losesAnswers && (errors.Is(err, kv.ErrUnknownOutcome) || errors.Is(err, kv.ErrUnavailable))
	return lost, lost && h.committed
}

// predict returns the answer to a refresh by the table.
func (h *history) predict(r *modelRefresh, client int) (identical *modelPair, want error) {
	now, fam := h.f.Now(), r.family
	state := storetest.RefreshState{Foreign: fam.client != client, Revoked: fam.revoked, Ended: fam.dead, Retired: r.retired, Expired: !now.Before(r.expires)}
	if p := r.pair; p != nil {
		state.Spent, state.PairSpent, state.PairUsed = true, p.next.pair != nil, p.used
		state.PairAge, state.PairExpired = now.Sub(p.made), !now.Before(p.access.expires)
	}
	again, want := state.Judge(lives.RefreshGrace)
	if again {
		identical = r.pair
	}
	return identical, want
}

// step is the refresh of a token by a client.
func (h *history) stepRefresh(t judge, r *modelRefresh, client int) {
	identical, want := h.predict(r, client)
	issued, err := h.f.RotateRefresh(context.Background(), store.Refresh{Client: h.clients[client], Token: r.token})
	lost, committed := h.lost(err)
	switch {
	case lost && !committed:
		return
	case !lost && !errors.Is(err, want):
		t.Fatalf("RotateRefresh() = %v, want %v", err, want)
	}
	switch {
	case want != nil:
		r.family.revoked = r.family.revoked || errors.Is(want, record.ErrReplayed)
	case identical == nil:
		h.replace(t, r, issued)
	case lost:
	case identical.issued.RefreshToken.IsZero():
		identical.issued = issued
		h.learn(identical.next, issued.RefreshToken)
		h.learnAccess(identical.access, issued.AccessToken)
	case !same(issued, identical.issued):
		t.Fatal("RotateRefresh() gave another pair, want the identical one")
	}
}

func (h *history) replace(t judge, r *modelRefresh, issued store.Issued) {
	for _, known := range h.refresh {
		if known.token.Equal(issued.RefreshToken) {
			t.Fatal("RotateRefresh() gave a refresh token that was given before, want a fresh one")
		}
	}
	if lost := r.pair; lost != nil {
		lost.next.retired, lost.access.deleted = true, true
	}
	pair := &modelPair{issued: issued, made: h.f.Now()}
	pair.next = h.addRefresh(r.family, issued.RefreshToken)
	pair.access = h.addAccess(r.family, pair, issued.AccessToken)
	r.pair = pair
}

func (h *history) stepPassword(t judge) {
	issued, err := h.f.IssueForPassword(context.Background(), store.By{}, h.clients[0], h.user(t), store.ScopeUnstated)
	if lost, committed := h.lost(err); !lost {
		must.Do(t, err)
	} else if !committed {
		return
	}
	h.begin(0, issued)
}

// stepImport brings tokens of another system, and brings them again.
func (h *history) stepImport(t judge, client int) {
	old := store.Issued{AccessToken: oldToken("old-access-" + secret.Text(h.random)), RefreshToken: oldToken("old-refresh-" + secret.Text(h.random))}
	given := importOf(h.clients[client], h.user(t), old, h.f.Now().Add(lives.AccessToken), h.f.Now().Add(lives.RefreshToken))
	want := "created"
	for range 2 {
		outcome, err := h.f.ImportTokens(context.Background(), given)
		lost, committed := h.lost(err)
		switch {
		case lost && !committed:
			continue
		case !lost && (err != nil || outcome != want):
			t.Fatalf("ImportTokens() = %q, %v, want %s", outcome, err, want)
		case want == "created":
			h.begin(client, old)
		}
		want = "unchanged"
	}
}

func (h *history) stepAllow(t judge, client int, pkce bool) {
	c := &modelCode{client: client, pkce: pkce, expires: h.f.Now().Add(lives.Code)}
	consent := store.Consent{Client: h.clients[client], User: h.user(t), RedirectURI: storetest.CallbackURI, Epoch: h.clients[client].ConsentEpoch,
		Ticket: secret.Text(h.random), TicketEnds: h.f.Now().Add(lives.Ticket)}
	if pkce {
		consent.Challenge = challenge
	}
	var err error
	c.token, err = h.f.Allow(context.Background(), consent)
	lost, committed := h.lost(err)
	if !lost {
		must.Do(t, err)
		h.codes = append(h.codes, c)
	}
	if h.given != nil && (!lost || committed) {
		h.given[client] = h.f.Now()
	}
}

func (a *modelAccess) lives(now time.Time) bool {
	return !a.deleted && !a.family.revoked && !a.family.dead && now.Before(a.expires)
}

func (h *history) stepUse(t judge, a *modelAccess) {
	lives := a.lives(h.f.Now())
	_, err := h.f.FindPrincipal(context.Background(), a.token)
	if lives != (err == nil) || err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Fatalf("FindPrincipal() = %v, want the token to live: %t", err, lives)
	}
	if lives && a.made != nil {
		a.made.used = true
	}
}

func (h *history) stepRedeem(t judge, c *modelCode, client int, proved bool) {
	now := h.f.Now()
	r := store.Redemption{Client: h.clients[client], Code: c.token, RedirectURI: storetest.CallbackURI}
	if c.pkce == proved && c.pkce {
		r.Verifier = verifier
	}
	var want error
	switch {
	case c.gone:
		want = record.ErrNotFound
	case client != c.client || c.pkce && !proved:
		want = record.ErrMismatch
	case !c.used.IsZero():
		want = record.ErrReplayed
	case c.dead:
		want = record.ErrDisabled
	case !now.Before(c.expires):
		want = record.ErrExpired
	}
	issued, err := h.f.RedeemCode(context.Background(), r)
	lost, committed := h.lost(err)
	switch {
	case lost && !committed:
	case !lost && !errors.Is(err, want):
		t.Fatalf("RedeemCode() = %v, want %v", err, want)
	case want == nil:
		c.used, c.family = now, h.begin(client, issued)
	case errors.Is(want, record.ErrReplayed) && now.Sub(c.used).Abs() > 10*time.Second:
		c.family.revoked = true
	}
}

// stepInspect is an introspection of an access token. By its own client it counts as a
// use.
func (h *history) stepInspect(t judge, a *modelAccess, client int) {
	want := a.lives(h.f.Now()) && client == a.family.client
	_, err := h.f.Introspect(context.Background(), h.clients[client], a.token.Reveal())
	if want != (err == nil) || err != nil && !errors.Is(err, record.ErrNotFound) {
		t.Fatalf("Introspect() = %v, want an active token: %t", err, want)
	}
	if want && a.made != nil {
		a.made.used = true
	}
}

// stepRevoke is a revocation by a refresh token.
func (h *history) stepRevoke(t judge, r *modelRefresh, client int) {
	if h.revoke(t, r.token, client) && client == r.family.client {
		r.family.revoked = true
	}
}

// stepRevokeAccess revokes by an access token, which ends alone. A caller who revokes it
// has received the pair.
func (h *history) stepRevokeAccess(t judge, a *modelAccess, client int) {
	if !h.revoke(t, a.token, client) || client != a.family.client || a.deleted || a.family.revoked || !h.f.Now().Before(a.expires) {
		return
	}
	a.deleted = true
	if a.made != nil {
		a.made.used, a.made.stored = true, true
	}
}

func (h *history) revoke(t judge, token secret.Token, client int) (committed bool) {
	err := h.f.RevokeToken(context.Background(), store.By{}, h.clients[client], token.Reveal())
	if lost, committed := h.lost(err); lost {
		return committed
	}
	must.Do(t, err)
	return true
}

// insist calls an idempotent operation until it is answered.
func (h *history) insist(t judge, call func() error) {
	err := call()
	if lost, _ := h.lost(err); lost {
		err = call()
	}
	must.Do(t, err)
}

// stepRevokeGranted revokes what the user granted to a client.
func (h *history) stepRevokeGranted(t judge, client int) {
	u := h.user(t)
	h.insist(t, func() error { return h.f.RevokeGranted(context.Background(), store.By{}, u, h.clients[client].ID) })
	delete(h.given, client)
	for _, fam := range h.families {
		fam.revoked = fam.revoked || fam.client == client && !fam.dead
	}
	for _, c := range h.codes {
		c.gone = c.gone || c.client == client && c.used.IsZero()
	}
}

// stepEnd ends all tokens of the user, as after a stolen laptop, and enables the user
// again.
func (h *history) stepEnd(t judge) {
	ctx := context.Background()
	h.insist(t, func() error {
		_, err := h.f.DisableUser(ctx, modelUser)
		if err == nil {
			_, err = h.f.EnableUser(ctx, modelUser)
		}
		return err
	})
	clear(h.given)
	for _, fam := range h.families {
		fam.dead = true
	}
	for _, c := range h.codes {
		c.dead = true
	}
}

func TestTokensAgainstModel(t *testing.T) {
	t.Parallel()
	f := storetest.NewKeeping(t)
	f.User(t, modelUser, "acct_larkspur") // shared: a password hash takes longer than a history
	a, _ := f.Client(t)
	b, _ := f.Client(t)
	rapid.Check(t, func(t *rapid.T) {
		h := &history{f: f, clients: []store.Client{a, b}}
		t.Repeat(h.actions())
		h.probe(t)
	})
}

func (h *history) actions() map[string]func(*rapid.T) {
	client := rapid.SampledFrom([]int{0, 0, 0, 1})
	return map[string]func(*rapid.T){
		"password": func(t *rapid.T) { h.stepPassword(t) },
		"import":   func(t *rapid.T) { h.stepImport(t, client.Draw(t, "client")) },
		"allow":    func(t *rapid.T) { h.stepAllow(t, client.Draw(t, "client"), rapid.Bool().Draw(t, "pkce")) },
		"redeem": func(t *rapid.T) {
			if len(h.codes) == 0 {
				t.Skip("no code yet")
			}
			h.stepRedeem(t, rapid.SampledFrom(h.codes).Draw(t, "code"), client.Draw(t, "client"), rapid.Bool().Draw(t, "proved"))
		},
		"refresh": func(t *rapid.T) {
			if len(h.refresh) == 0 {
				t.Skip("no token yet")
			}
			h.stepRefresh(t, rapid.SampledFrom(h.refresh).Draw(t, "token"), client.Draw(t, "client"))
		},
		"refresh the last": func(t *rapid.T) {
			if len(h.refresh) == 0 {
				t.Skip("no token yet")
			}
			h.stepRefresh(t, h.refresh[len(h.refresh)-1], client.Draw(t, "client"))
		},
		"use": func(t *rapid.T) {
			if len(h.access) == 0 {
				t.Skip("no token yet")
			}
			h.stepUse(t, rapid.SampledFrom(h.access).Draw(t, "token"))
		},
		"clock": func(t *rapid.T) {
			h.f.Clock.Advance(rapid.SampledFrom([]time.Duration{tick, time.Second, lives.RefreshGrace, lives.RefreshGrace + tick,
				lives.Code, lives.AccessToken, lives.RefreshToken, -time.Second, -lives.RefreshGrace}).Draw(t, "by"))
		},
		"inspect": func(t *rapid.T) {
			if len(h.access) == 0 {
				t.Skip("no token yet")
			}
			h.stepInspect(t, rapid.SampledFrom(h.access).Draw(t, "token"), client.Draw(t, "client"))
		},
		"revoke": func(t *rapid.T) {
			if len(h.refresh) == 0 {
				t.Skip("no token yet")
			}
			// Mostly an access token, or by another client: otherwise too few families would stay live.
			by := client.Draw(t, "client")
			if r := rapid.SampledFrom(h.refresh).Draw(t, "token"); by != r.family.client || rapid.IntRange(0, 9).Draw(t, "really") == 0 {
				h.stepRevoke(t, r, by)
				return
			}
			h.stepRevokeAccess(t, rapid.SampledFrom(h.access).Draw(t, "access token"), by)
		},
		"revoke granted": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
				h.stepRevokeGranted(t, client.Draw(t, "client"))
			}
		},
		"end": func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "really") == 0 {
				h.stepEnd(t)
			}
		},
	}
}
