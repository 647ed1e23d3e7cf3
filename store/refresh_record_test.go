package store_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// The end of a refresh token's record, if it is not retired: the nonce, whether its pair
// was used, the successor, and no time of retirement.
const (
	nonceSize     = len(secret.Nonce{})
	successorSize = len(secret.Hash{})
	recordTail    = nonceSize + 1 + successorSize + 1
)

func (g grant) refreshRecord(t *testing.T, of store.Issued) (value []byte) {
	t.Helper()
	must.Do(t, g.DB.View(context.Background(), func(r kv.Reader) error {
		v, err := r.Get(record.RefreshTokenKey(of.RefreshToken.Hash()))
		value = bytes.Clone(v)
		return err
	}))
	return value
}

func (g grant) nonceOf(t *testing.T, of store.Issued) []byte {
	t.Helper()
	v := g.refreshRecord(t, of)
	return v[len(v)-recordTail:][:nonceSize]
}

// TestSpendingErasesTheNonce: whoever has the store, the server key and an old token
// cannot derive the tokens of a pair that was itself replaced.
func TestSpendingErasesTheNonce(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, g grant, made store.Issued){
		"by_its_own_rotation": func(t *testing.T, g grant, made store.Issued) { g.mustRefresh(t, made) },
		"by_a_pair_in_its_place": func(t *testing.T, g grant, _ store.Issued) {
			g.Clock.Advance(lives.RefreshGrace + tick)
			g.mustRefresh(t, g.first)
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := parallelGrant(t)
			second := g.mustRefresh(t, g.first)
			nonce := g.nonceOf(t, second)
			if bytes.Equal(nonce, make([]byte, nonceSize)) {
				t.Fatal("the record of an unspent token has no nonce")
			}
			end(t, g, second)
			must.Do(t, g.DB.View(t.Context(), func(r kv.Reader) error {
				for key, value := range r.Scan(kv.Range{}) {
					if bytes.Contains(value, nonce) {
						t.Errorf("a record of the kind %q still has the nonce", key[0])
					}
				}
				return nil
			}))
		})
	}
}

// TestARotationWritesThreeRecords: the spent token and its pair, and not the token that
// was spent before.
func TestARotationWritesThreeRecords(t *testing.T) {
	t.Parallel()
	f, tape := storetest.NewTaped(t)
	client, _ := f.Client(t)
	g := grant{Fixture: f, client: client, user: f.User(t, "mara", "acct_larkspur")}
	second := g.mustRefresh(t, g.issue(t, store.ScopeUnstated))
	tape.Commits = nil
	g.mustRefresh(t, second)
	var kinds []byte
	for _, written := range tape.Commits {
		for _, r := range written {
			kinds = append(kinds, r.Key[0])
		}
	}
	if got := string(kinds); got != "trr" {
		t.Errorf("a rotation writes records of the kinds %q, want trr", got)
	}
}

// TestAnHourlyRefreshKeepsTwoWeeksOfSpentTokens: after a year, a family has the tokens that
// still reveal a replay, and not the 8,760 that it has had.
//
// Promise (RFC 9700): spent refresh tokens are kept for their own lifetime: a family that refreshes every
// hour keeps 336 of them
func TestAnHourlyRefreshKeepsTwoWeeksOfSpentTokens(t *testing.T) {
	t.Parallel()
	const wantBytes = 54 << 10
	g := newGrant(t)
	pair := g.first
	for g.Clock.Now().Before(storetest.NewClock().Now().Add(lives.Family - time.Hour)) {
		g.Clock.Advance(time.Hour)
		pair = g.mustRefresh(t, pair)
	}
	records, size := 0, 0
	for k, v := range contents(t, g.DB) {
		if k[0] == record.TagRefreshToken {
			records, size = records+1, size+len(k)+len(v)
		}
	}
	t.Logf("%d refresh tokens, %d bytes", records, size)
	if want := int(lives.RefreshToken / time.Hour); records != want {
		t.Errorf("the family keeps %d refresh tokens, want those of its last %d hours", records, want)
	}
	if size > wantBytes {
		t.Errorf("they take %d bytes, want at most %d", size, wantBytes)
	}
}
