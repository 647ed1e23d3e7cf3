package store_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"runtime"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// pieceSize is the longest piece of a secret that may be stored: 16 characters of a
// token are 95 of its 256 bits.
const pieceSize = 16

// TestNothingKeptIsASecret reads every key and value that an authorization leaves: none
// contains even a piece of a secret, in any encoding.
//
// Promise (RFC 6749 §10): only hashes are stored, in a private directory
func TestNothingKeptIsASecret(t *testing.T) {
	g := parallelGrant(t)
	client, clientSecret := g.Client(t)
	g.client = client
	session, code := g.signIn(t, secret.Token{}), g.allow(t, challenge)
	first := must.Get(g.redeem(code, verifier))(t)
	second := g.mustRefresh(t, first)
	g.Rest()
	kept := contents(t, g.DB)
	for name, text := range map[string]string{
		"client_secret": clientSecret.Reveal(), "session": session.Reveal(), "code": code.Reveal(), "password": storetest.Password, "verifier": verifier,
		"access_token": first.AccessToken.Reveal(), "refresh_token": first.RefreshToken.Reveal(),
		"second_access_token": second.AccessToken.Reveal(), "second_refresh_token": second.RefreshToken.Reveal(),
	} {
		t.Run(name, func(t *testing.T) {
			for at := 0; at+pieceSize <= len(text); at++ {
				wantNowhere(t, kept, text[at:at+pieceSize])
			}
		})
	}
}

// wantNowhere fails the test if a record contains the piece, plain, in hexadecimal or
// in base64.
func wantNowhere(t *testing.T, kept map[string]string, piece string) {
	t.Helper()
	for _, spelt := range []string{piece, hex.EncodeToString([]byte(piece)), base64.RawStdEncoding.EncodeToString([]byte(piece))[:pieceSize]} {
		for k, v := range kept {
			if strings.Contains(k, spelt) || strings.Contains(v, spelt) {
				t.Fatalf("a record of kind %q holds the piece %q", k[0], spelt)
			}
		}
	}
}

// TestAuthenticateUserCostsAHashForEveryName is not parallel: it measures what the
// process allocates, and a password hash takes at least 19 MiB.
//
// Promise (RFC 6749 §4): a password is one however a keyboard composes it; a hash of what was typed
// still matches; the cost is the same for every name
// Promise (Credentials, memory, connections): distinguishing users by answer or timing
func TestAuthenticateUserCostsAHashForEveryName(t *testing.T) {
	const hashBytes = 19 << 20
	g := newGrant(t, storetest.FullHashes)
	g.User(t, "nils", "acct_larkspur")
	must.Get(g.DisableUser(context.Background(), "nils"))(t)
	_, _, err := g.CreateUser(context.Background(), store.UserSpec{Username: "nora", Account: "acct_larkspur", Code: true})
	must.Do(t, err)
	cost := func(t *testing.T, username, password string, want uint64) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := g.AuthenticateUser(context.Background(), secret.Caller{}, username, password); err == nil {
			t.Fatal("AuthenticateUser() took a wrong password")
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got < want*hashBytes || got >= (want+1)*hashBytes {
			t.Errorf("AuthenticateUser(%q, %q) allocated %d bytes, want those of %d hashes", username, password, got, want)
		}
	}
	for name, username := range map[string]string{"known": "mara", "without_a_password": "nora", "unknown": "moira", "disabled": "nils", "impossible": "no body"} {
		t.Run(name, func(t *testing.T) {
			cost(t, username, "a wrong password", 1)
			cost(t, username, "caf\u00e9 caf\u00e9 tea", 1)
			cost(t, username, "cafe\u0301 cafe\u0301 tea", 2) // for everybody, or the time would tell names apart
		})
	}
}
