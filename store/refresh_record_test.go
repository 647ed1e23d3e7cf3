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

// inFirstVersion writes the record of a refresh token as the first version had it: with
// the nonce of its pair, which is then not in the record of the pair's own token.
func (g grant) inFirstVersion(t *testing.T, of store.Issued, pairNonce []byte) {
	t.Helper()
	v := g.refreshRecord(t, of)
	body, confirmed := v[1:len(v)-recordTail], v[len(v)-recordTail+nonceSize]
	first := bytes.Join([][]byte{{1}, body, pairNonce, {confirmed, 0, 0}}, nil)
	must.Do(t, g.DB.Update(t.Context(), func(tx kv.Txn) error {
		return tx.Set(record.RefreshTokenKey(of.RefreshToken.Hash()), first, time.Time{})
	}))
}

// TestRefreshTokensOfTheFirstVersion: tokens stored by the first version of their record
// are judged like others.
func TestRefreshTokensOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (grant, store.Issued) {
		g := parallelGrant(t)
		second := g.mustRefresh(t, g.first)
		g.inFirstVersion(t, g.first, g.nonceOf(t, second))
		g.inFirstVersion(t, second, make([]byte, nonceSize))
		if _, err := g.CheckAll(t.Context()); err != nil {
			t.Fatalf("CheckAll() = %v", err)
		}
		return g, second
	}
	t.Run("a_repeat_gives_the_identical_pair", func(t *testing.T) {
		g, second := start(t)
		if again := g.mustRefresh(t, g.first); !same(again, second) {
			t.Error("RotateRefresh() gave another pair, want the identical one")
		}
	})
	t.Run("a_replay_after_the_next_rotation_revokes", func(t *testing.T) {
		g, second := start(t)
		third := g.mustRefresh(t, second)
		_, err := g.refresh(g.first)
		refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
		g.familyIsDead(t, g.first, second, third)
	})
	t.Run("a_replay_after_a_use_revokes", func(t *testing.T) {
		g, second := start(t)
		g.use(t, second)
		g.Clock.Advance(lives.RefreshGrace + tick)
		_, err := g.refresh(g.first)
		refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
		g.familyIsDead(t, g.first, second)
	})
	t.Run("a_lost_pair_is_replaced", func(t *testing.T) {
		g, second := start(t)
		g.Clock.Advance(lives.RefreshGrace + tick)
		fresh := g.mustRefresh(t, g.first)
		if g.accessLives(t, second) || !g.accessLives(t, fresh) {
			t.Error("the lost pair is alive or the fresh one dead")
		}
		_, err := g.refresh(second)
		refused(t, "RotateRefresh(retired)", err, record.ErrReplayed)
	})
}
