package store_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestRotateRefresh follows the table of docs/internals/decisions.md row by row. It is one of two
// tests of the table that know its answers; the other is storetest.RefreshState, which the
// models and the tests of the token endpoint ask.
//
// Promise (RFC 9700): every state of a refresh token is answered as rotation demands; refresh
// tokens expire after 14 idle days, families after a year; a password reset, disabled user, deleted
// client or revoked consent ends both
func TestRotateRefresh(t *testing.T) {
	t.Parallel()
	rotateByTheTable(t, beginning{grant.issued})
}

// Promise (Platform §12): the first refresh of an imported token returns a native pair by the same
// table as every refresh: a retry gets the identical pair, a replay after its use ends the family
func TestRotateImportedRefresh(t *testing.T) {
	t.Parallel()
	rotateByTheTable(t, beginning{grant.imported})
}

func rotateByTheTable(t *testing.T, begin beginning) {
	t.Run("revoked_family_is_refused_and_nothing_changes", func(t *testing.T) { rotateOfRevokedFamily(t, begin) })
	t.Run("ended_client_or_user_is_refused_and_nothing_changes", func(t *testing.T) { rotateOfEndedParty(t, begin) })
	t.Run("retired_token_revokes_the_family", func(t *testing.T) { rotateOfRetired(t, begin) })
	t.Run("unspent_token_gives_a_new_pair", func(t *testing.T) { rotateOfUnspent(t, begin) })
	t.Run("spent_token_whose_successor_was_rotated_revokes_until_it_expires", func(t *testing.T) { rotateAfterSuccessor(t, begin) })
	t.Run("spent_token_within_the_grace_gives_the_identical_pair", func(t *testing.T) { rotateWithinGrace(t, begin) })
	t.Run("spent_token_after_the_grace_whose_pair_was_used_revokes", func(t *testing.T) { rotateAfterUse(t, begin) })
	t.Run("spent_token_after_the_grace_whose_pair_was_lost_gives_a_fresh_one", func(t *testing.T) { rotateAfterLoss(t, begin) })
	t.Run("expired_token_is_refused", func(t *testing.T) { rotateOfExpired(t, begin) })
}

func rotateOfRevokedFamily(t *testing.T, begin beginning) {
	g := begin.parallel(t)
	second := g.mustRefresh(t, g.first)
	third := g.mustRefresh(t, second)
	_, err := g.refresh(g.first) // revokes
	refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
	g.unchanged(t, func() {
		for name, pair := range map[string]store.Issued{"first": g.first, "second": second, "third": third} {
			_, err := g.refresh(pair)
			refused(t, "RotateRefresh("+name+")", err, record.ErrRevoked)
		}
	})
	g.familyIsDead(t, g.first, second, third)
}

func rotateOfEndedParty(t *testing.T, begin beginning) {
	t.Parallel()
	ctx := context.Background()
	cases := []struct {
		name   string
		end    func(g grant) error
		revive func(g grant) error
		want   error
	}{
		{"user_disabled", func(g grant) error { _, err := g.DisableUser(ctx, "mara"); return err },
			func(g grant) error { _, err := g.EnableUser(ctx, "mara"); return err }, record.ErrDisabled},
		{"password_reset", func(g grant) error { _, err := g.SetPassword(ctx, "mara", "another long phrase"); return err }, nil, record.ErrDisabled},
		{"client_disabled", func(g grant) error { _, err := g.DisableClient(ctx, g.client.ID); return err },
			func(g grant) error { _, err := g.EnableClient(ctx, g.client.ID); return err }, record.ErrDisabled},
		{"client_secret_rotated_with_revoke", func(g grant) error { _, _, err := g.RotateClientSecret(ctx, g.client.ID, true); return err }, nil, record.ErrDisabled},
		{"user_deleted", func(g grant) error { return g.DeleteUser(ctx, "mara") }, nil, record.ErrNotFound},
		{"client_deleted", func(g grant) error { return g.DeleteClient(ctx, g.client.ID) }, nil, record.ErrNotFound},
		{"account_disabled", func(g grant) error { _, err := g.DisableAccount(ctx, "acct_larkspur"); return err },
			func(g grant) error { _, err := g.EnableAccount(ctx, "acct_larkspur"); return err }, record.ErrDisabled},
		{"account_revoked", func(g grant) error { _, err := g.RevokeAccount(ctx, "acct_larkspur"); return err }, nil, record.ErrDisabled},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			g := begin.parallel(t)
			second := g.mustRefresh(t, g.first)
			check := func() {
				for i, pair := range []store.Issued{g.first, second} {
					if _, err := g.refresh(pair); !errors.Is(err, c.want) {
						t.Errorf("RotateRefresh(%d) = %v, want %v", i, err, c.want)
					}
					if g.accessLives(t, pair) {
						t.Errorf("access token %d lives, want it dead", i)
					}
				}
			}
			must.Do(t, c.end(g))
			g.unchanged(t, check)
			if c.revive == nil {
				return
			}
			must.Do(t, c.revive(g))
			g.unchanged(t, check) // enabling again revives none
		})
	}
}

// lose issues a pair that the client never sees, and the one that replaces it.
func lose(t *testing.T, g grant) (unseen, fresh store.Issued) {
	t.Helper()
	unseen = g.mustRefresh(t, g.first)
	g.Clock.Advance(lives.RefreshGrace + tick)
	return unseen, g.mustRefresh(t, g.first)
}

func rotateOfRetired(t *testing.T, begin beginning) {
	t.Parallel()
	for _, later := range []time.Duration{0, lives.RefreshGrace, 24 * time.Hour, lives.RefreshToken - lives.RefreshGrace - 2*tick} {
		t.Run(later.String(), func(t *testing.T) {
			g := begin.parallel(t)
			unseen, fresh := lose(t, g)
			g.Clock.Advance(later)
			_, err := g.refresh(unseen)
			refused(t, "RotateRefresh(retired)", err, record.ErrReplayed)
			g.familyIsDead(t, g.first, unseen, fresh)
		})
	}
}

func rotateOfUnspent(t *testing.T, begin beginning) {
	g := begin.parallel(t)
	second := g.mustRefresh(t, g.first)
	if second.RefreshToken.Equal(g.first.RefreshToken) || second.AccessToken.Equal(g.first.AccessToken) {
		t.Error("RotateRefresh() gave a token of the old pair, want two new ones")
	}
	if second.Retried {
		t.Error("RotateRefresh().Retried = true, want false")
	}
	if second.ExpiresIn != lives.AccessToken || second.FamilyID != g.first.FamilyID || second.Scope != g.first.Scope {
		t.Errorf("RotateRefresh() = %v %s %q, want %v %s %q", second.ExpiresIn, second.FamilyID, second.Scope,
			lives.AccessToken, g.first.FamilyID, g.first.Scope)
	}
	// Our choice: the old access token lives to its own end, so that calls in flight
	// succeed.
	if !g.accessLives(t, g.first) || !g.accessLives(t, second) {
		t.Error("an access token died of the refresh, want both alive")
	}
}

func rotateAfterSuccessor(t *testing.T, begin beginning) {
	t.Parallel()
	for _, later := range []time.Duration{0, lives.RefreshGrace, lives.RefreshGrace + tick, lives.RefreshToken - tick} {
		t.Run(later.String(), func(t *testing.T) {
			g := begin.parallel(t)
			second := g.mustRefresh(t, g.first)
			third := g.mustRefresh(t, second) // all in one moment
			g.Clock.Advance(later)
			_, err := g.refresh(g.first)
			refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
			g.familyIsDead(t, g.first, second, third)
		})
	}
	t.Run("although_the_successor_expired_sooner", func(t *testing.T) {
		g := begin.parallel(t)
		short := lives
		short.RefreshToken = time.Hour
		g.Store = must.Get(store.Open(t.Context(), g.DB, store.Options{Now: g.Clock.Now, Key: g.Key, Lifetimes: short, Log: slog.New(slog.DiscardHandler)}))(t)
		second := g.mustRefresh(t, g.first)
		third := g.mustRefresh(t, second)
		g.Clock.Advance(short.RefreshToken)
		g.issue(t, store.ScopeUnstated) // an Update, after which the engine drops what has expired
		if kept := g.Count(t, record.TagRefreshToken); kept != 3 && storetest.DropsExpired() {
			t.Fatalf("the engine keeps %d refresh tokens, want all but the second one", kept)
		}
		_, err := g.refresh(g.first)
		refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
		g.familyIsDead(t, g.first, third)
	})
}

func rotateWithinGrace(t *testing.T, begin beginning) {
	t.Parallel()
	t.Run("at_every_moment_of_it", func(t *testing.T) {
		g := begin.parallel(t)
		second := g.mustRefresh(t, g.first)
		for _, step := range []time.Duration{0, time.Second, lives.RefreshGrace - time.Second} {
			g.Clock.Advance(step)
			again := g.mustRefresh(t, g.first)
			if !same(again, second) || !again.Retried {
				t.Fatalf("RotateRefresh() %v later gave another pair, want the identical one", step)
			}
		}
		if again := g.mustRefresh(t, g.first); again.ExpiresIn != lives.AccessToken-lives.RefreshGrace {
			t.Errorf("ExpiresIn = %v, want the %v that are left", again.ExpiresIn, lives.AccessToken-lives.RefreshGrace)
		}
		g.Clock.Advance(tick)
		if later := g.mustRefresh(t, g.first); same(later, second) {
			t.Error("RotateRefresh() after the grace gave the old pair, want a fresh one")
		}
	})
	t.Run("even_when_the_pair_was_used", func(t *testing.T) {
		g := begin.parallel(t)
		second := g.mustRefresh(t, g.first)
		g.use(t, second)
		if again := g.mustRefresh(t, g.first); !same(again, second) {
			t.Error("RotateRefresh() gave another pair, want the identical one")
		}
	})
	t.Run("even_when_the_token_expired_since", func(t *testing.T) {
		g := begin.parallel(t)
		g.Clock.Advance(lives.RefreshToken - tick)
		second := g.mustRefresh(t, g.first)
		g.Clock.Advance(time.Second)
		if again := g.mustRefresh(t, g.first); !same(again, second) {
			t.Error("RotateRefresh() gave another pair, want the identical one")
		}
	})
	t.Run("but_not_for_longer_when_the_clock_is_set_back", func(t *testing.T) {
		g := begin.parallel(t)
		second := g.mustRefresh(t, g.first)
		g.use(t, second)
		g.Clock.Advance(-time.Hour)
		_, err := g.refresh(g.first)
		refused(t, "RotateRefresh() an hour before its own rotation", err, record.ErrReplayed)
	})
	t.Run("never_longer_than_an_access_token_lives", func(t *testing.T) {
		options := store.DefaultLifetimes()
		options.RefreshGrace = options.AccessToken + time.Second
		g := begin.parallel(t)
		var invalid *record.InvalidError
		_, err := store.Open(context.Background(), g.DB, store.Options{Now: g.Clock.Now, Key: g.Key, Lifetimes: options})
		if !errors.As(err, &invalid) {
			t.Errorf("Open(grace longer than an access token) = %v, want an InvalidError", err)
		}
	})
}

func rotateAfterUse(t *testing.T, begin beginning) {
	t.Parallel()
	t.Run("committed", func(t *testing.T) {
		g := begin.parallel(t)
		second := g.mustRefresh(t, g.first)
		g.use(t, second)
		g.Clock.Advance(lives.RefreshGrace + tick)
		_, err := g.refresh(g.first)
		refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
		g.familyIsDead(t, g.first, second)
	})
	t.Run("noted_and_not_yet_committed", func(t *testing.T) {
		g := begin.parallel(t)
		second := g.mustRefresh(t, g.first)
		finish := g.useUncommitted(t, second)
		defer finish()
		g.Clock.Advance(lives.RefreshGrace + tick)
		_, err := g.refresh(g.first)
		refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
	})
	t.Run("lost_in_a_crash_counts_as_unused_until_the_next_use", func(t *testing.T) {
		g := begin.parallel(t)
		second := g.mustRefresh(t, g.first)
		finish := g.useUncommitted(t, second)
		defer finish()
		g.Clock.Advance(lives.RefreshGrace + tick)
		g.Store = g.Reopened(t)
		third := g.mustRefresh(t, g.first)
		if same(third, second) {
			t.Error("RotateRefresh() gave the unseen pair again, want a fresh one")
		}
		if g.accessLives(t, second) {
			t.Error("the access token of the replaced pair lives, want it dead")
		}
	})
}

// useUncommitted sends the pair's access token to the API and delays the record of its
// use until finish is called.
func (g grant) useUncommitted(t *testing.T, of store.Issued) (finish func()) {
	t.Helper()
	begun, release := make(chan struct{}), make(chan struct{})
	g.Faults.OnUpdate(func(func() error) error {
		close(begun)
		<-release
		return kv.ErrUnavailable
	})
	if !g.accessLives(t, of) {
		t.Fatal("FindPrincipal() refused the pair that was just made")
	}
	<-begun
	g.Faults.Repair()
	return func() { close(release) }
}

func rotateAfterLoss(t *testing.T, begin beginning) {
	t.Parallel()
	t.Run("and_retires_the_unseen_one", func(t *testing.T) {
		g := begin.parallel(t)
		unseen, fresh := lose(t, g)
		if same(unseen, fresh) || fresh.ExpiresIn != lives.AccessToken {
			t.Errorf("RotateRefresh() = %v left and same = %t, want a fresh pair with %v", fresh.ExpiresIn, same(unseen, fresh), lives.AccessToken)
		}
		if g.accessLives(t, unseen) {
			t.Error("the access token of the unseen pair lives, want it dead")
		}
		if !g.accessLives(t, fresh) {
			t.Error("the access token of the fresh pair is dead, want it alive")
		}
		g.mustRefresh(t, fresh)
	})
	t.Run("and_the_grace_starts_again", func(t *testing.T) {
		g := begin.parallel(t)
		_, fresh := lose(t, g)
		g.Clock.Advance(lives.RefreshGrace)
		if again := g.mustRefresh(t, g.first); !same(again, fresh) {
			t.Error("RotateRefresh() within the new grace gave another pair, want the identical one")
		}
		g.Clock.Advance(tick)
		if third := g.mustRefresh(t, g.first); same(third, fresh) {
			t.Error("RotateRefresh() after the new grace gave the old pair, want a third")
		}
	})
	t.Run("and_a_use_of_it_ends_that", func(t *testing.T) {
		g := begin.parallel(t)
		unseen, fresh := lose(t, g)
		g.use(t, fresh)
		g.Clock.Advance(lives.RefreshGrace + tick)
		_, err := g.refresh(g.first)
		refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
		g.familyIsDead(t, unseen, fresh)
	})
	t.Run("with_the_scope_of_the_first_answer", func(t *testing.T) {
		g := begin.parallel(t)
		must.Get(g.refreshFor(g.first, store.ScopeEventsRead))(t)
		g.Clock.Advance(lives.RefreshGrace + tick)
		fresh, err := g.refreshFor(g.first, store.ScopeEventsRead)
		if err != nil || fresh.Scope != store.ScopeEventsRead {
			t.Errorf("RotateRefresh() = %q, %v, want %q", fresh.Scope, err, store.ScopeEventsRead)
		}
	})
}

func rotateOfExpired(t *testing.T, begin beginning) {
	t.Parallel()
	t.Run("unspent", func(t *testing.T) {
		g := begin.parallel(t)
		g.Clock.Advance(lives.RefreshToken)
		g.unchanged(t, func() {
			_, err := g.refresh(g.first)
			refused(t, "RotateRefresh() at its end", err, record.ErrExpired)
		})
		g.Clock.Advance(-tick)
		g.mustRefresh(t, g.first)
	})
	t.Run("repeated_after_its_family_ended_within_the_grace_period", func(t *testing.T) {
		t.Parallel()
		g := begin.in(t, storetest.NewKeeping(t, func(o *store.Options) { o.Lifetimes.Family = time.Minute }))
		g.Clock.Advance(50 * time.Second)
		g.mustRefresh(t, g.first)
		g.Clock.Advance(lives.RefreshGrace / 2)
		_, err := g.refresh(g.first)
		refused(t, "RotateRefresh() after the family's end", err, record.ErrExpired)
	})
	for _, s := range states {
		t.Run(s.name+"_and_nothing_changes", func(t *testing.T) {
			t.Parallel()
			begun := storetest.NewClock().Now()
			for name, f := range map[string]*storetest.Fixture{"kept": storetest.NewKeeping(t), "dropped": storetest.New(t)} {
				g := begin.in(t, f)
				asked := s.bring(t, g)
				g.Clock.Advance(begun.Add(lives.RefreshToken).Sub(g.Now()))
				want := record.ErrExpired
				if name == "dropped" {
					g.issue(t, store.ScopeUnstated) // an Update, after which the engine drops what has expired
				}
				if name == "dropped" && storetest.DropsExpired() && s.name != "unspent" && s.name != "expired" {
					want = record.ErrNotFound
				}
				g.unchanged(t, func() {
					_, err := g.refresh(asked)
					refused(t, "RotateRefresh() of a token whose record is "+name, err, want)
				})
			}
		})
	}
	t.Run("and_its_family_lives", func(t *testing.T) {
		g := begin.parallel(t)
		second := g.mustRefresh(t, g.first)
		g.Clock.Advance(lives.RefreshToken - tick)
		third := g.mustRefresh(t, second)
		g.Clock.Advance(tick)
		if _, err := g.refresh(g.first); err == nil {
			t.Error("RotateRefresh() of an expired spent token = nil, want a refusal")
		}
		if !g.accessLives(t, third) {
			t.Error("the family was revoked, want it to live")
		}
		g.mustRefresh(t, third)
	})
	t.Run("with_its_family_a_year_after_the_authorization", func(t *testing.T) {
		g := begin.parallel(t)
		pair, age := g.first, time.Duration(0)
		for step := lives.RefreshToken - time.Hour; age+step < lives.Family; age += step {
			g.Clock.Advance(step)
			pair = g.mustRefresh(t, pair)
		}
		g.Clock.Advance(lives.Family - age - time.Minute)
		pair = g.mustRefresh(t, pair)
		if pair.ExpiresIn != time.Minute {
			t.Errorf("ExpiresIn = %v, want the minute that the family has left", pair.ExpiresIn)
		}
		g.Clock.Advance(time.Minute)
		if _, err := g.refresh(pair); err == nil {
			t.Error("RotateRefresh() a year after the authorization = nil, want a refusal")
		}
		if g.accessLives(t, pair) {
			t.Error("an access token outlives its family, want it dead")
		}
	})
}

// The rate bounds what one family can make the server keep: however long tokens live, not
// more spent ones than a year of one refresh in ten seconds.
func TestRotationEvery(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct{ lifetime, want time.Duration }{
		{time.Second, time.Second}, {14 * day, time.Second}, {14*day + time.Second, 2 * time.Second}, {30 * day, 3 * time.Second},
		{90 * day, 7 * time.Second}, {140 * day, 10 * time.Second}, {365 * day, 10 * time.Second},
	} {
		if got := (store.Lifetimes{RefreshToken: c.lifetime}).RotationEvery(); got != c.want {
			t.Errorf("RotationEvery() for tokens of %s = %s, want %s", c.lifetime, got, c.want)
		}
	}
}
