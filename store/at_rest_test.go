package store_test

import (
	"bytes"
	"context"
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestAtRest reads every record, as a thief of the disk can, and looks for usable
// secrets. The store has a refreshed family, one whose code is still open, a session
// and a client with two secrets.
//
// Promise (Monitoring): tokens are stored only as SHA-256 of 256 random bits; prefix and checksum
// catch a typo before the store is read
func TestAtRest(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	second := g.mustRefresh(t, g.first)
	third := g.mustRefresh(t, second)
	code := g.allow(t, "")
	session := g.signIn(t, secret.Token{})
	_, clientSecret, err := g.RotateClientSecret(ctx, g.client.ID, false)
	must.Do(t, err)
	g.Rest()
	secrets := map[string]string{
		"password": storetest.Password, "client_secret": clientSecret.Reveal(), "code": code.Reveal(), "session": session.Reveal(),
		"spent_refresh_token": g.first.RefreshToken.Reveal(), "access_token": third.AccessToken.Reveal(), "refresh_token": third.RefreshToken.Reveal(),
	}
	var records int
	var all bytes.Buffer
	err = g.DB.View(ctx, func(r kv.Reader) error {
		for key, value := range r.Scan(kv.Range{}) {
			records++
			all.Write(key)
			all.Write(value)
		}
		return nil
	})
	if err != nil || records < 10 {
		t.Fatalf("%d records (%v), want those of the walk", records, err)
	}
	for name, text := range secrets {
		t.Run("no_"+name, func(t *testing.T) {
			// With a part of it the rest could be guessed.
			for _, part := range []string{text, text[:len(text)*2/3], text[len(text)/3:]} {
				if bytes.Contains(all.Bytes(), []byte(part)) {
					t.Errorf("the store holds %d characters of it in clear", len(part))
				}
			}
		})
	}
}
