package store_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// onShared runs a test with two stores on each engine that processes share. Both know
// the same client and user, and the first pair of a family.
func onShared(t *testing.T, run func(t *testing.T, a, b grant)) {
	t.Parallel()
	for name, open := range storetest.SharedEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbA, dbB := open(t)
			run2(t, dbA, dbB, run)
		})
	}
}

func run2(t *testing.T, dbA, dbB kv.DB, run func(t *testing.T, a, b grant)) {
	t.Helper()
	fa, fb := storetest.Two(t, dbA, dbB)
	client, _ := fa.Client(t)
	a := grant{Fixture: fa, client: client, user: fa.User(t, "mara", "acct_larkspur")}
	a.first = a.issue(t, store.ScopeUnstated)
	b := a
	b.Fixture = fb
	run(t, a, b)
}

func TestRefreshAtTwoServers(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	t.Run("a_retry_at_the_other_gets_the_identical_pair", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			second := a.mustRefresh(t, a.first)
			if again := b.mustRefresh(t, a.first); !same(again, second) || !again.Retried {
				t.Error("RotateRefresh() at the other gave another pair")
			}
		})
	})
	t.Run("a_pair_used_at_one_is_not_replaced_at_the_other", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			second := a.mustRefresh(t, a.first)
			must.Get(b.FindPrincipal(t.Context(), second.AccessToken))(t)
			a.Clock.Advance(lives.RefreshGrace + tick)
			_, err := a.refresh(a.first)
			refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
			for _, g := range []grant{a, b} {
				g.familyIsDead(t, a.first, second)
			}
		})
	})
	t.Run("nor_one_that_was_introspected_at_one", func(t *testing.T) {
		for name, token := range map[string]func(store.Issued) secret.Token{
			"access_token":  func(of store.Issued) secret.Token { return of.AccessToken },
			"refresh_token": func(of store.Issued) secret.Token { return of.RefreshToken },
		} {
			t.Run(name, func(t *testing.T) {
				onShared(t, func(t *testing.T, a, b grant) {
					second := a.mustRefresh(t, a.first)
					must.Get(b.Introspect(t.Context(), b.client, token(second).Reveal()))(t)
					a.Clock.Advance(lives.RefreshGrace + tick)
					_, err := a.refresh(a.first)
					refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
				})
			})
		}
	})
	t.Run("an_unused_pair_is_replaced_and_ends_at_both", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			lost := a.mustRefresh(t, a.first)
			a.Clock.Advance(lives.RefreshGrace + tick)
			fresh := b.mustRefresh(t, a.first)
			if same(fresh, lost) || a.accessLives(t, lost) || b.accessLives(t, lost) {
				t.Error("the pair that was replaced lives")
			}
			if !a.accessLives(t, fresh) {
				t.Error("the new pair does not live at the other")
			}
		})
	})
	t.Run("a_replay_at_the_other_revokes_the_family", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			second := a.mustRefresh(t, a.first)
			third := b.mustRefresh(t, second)
			_, err := b.refresh(a.first)
			refused(t, "RotateRefresh(first)", err, record.ErrReplayed)
			a.familyIsDead(t, a.first, second, third)
		})
	})
	t.Run("of_rotations_at_once_all_give_one_pair", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			given := make([]store.Issued, 8)
			var callers sync.WaitGroup
			for i := range given {
				callers.Go(func() { given[i], _ = []grant{a, b}[i%2].refresh(a.first) })
			}
			callers.Wait()
			for _, of := range given[1:] {
				if !same(of, given[0]) {
					t.Error("two rotations gave different pairs")
				}
			}
		})
	})
}

// TestFirstUseIsStoredBeforeItsAnswer: other processes decide by what is stored.
func TestFirstUseIsStoredBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	opened := func(t *testing.T) (a, b grant, faults *storetest.Faults) {
		s := storetest.NewShared()
		dbA, dbB := s.Open(), s.Open()
		run2(t, dbA, dbB, func(_ *testing.T, a2, b2 grant) { a, b = a2, b2 })
		b.Rest() // no other commits
		return a, b, dbB.Faults
	}
	t.Run("once_for_a_pair", func(t *testing.T) {
		a, b, faults := opened(t)
		second := a.mustRefresh(t, a.first)
		commits := 0
		faults.OnUpdate(func(run func() error) error { commits++; return run() })
		for range 3 {
			must.Get(b.FindPrincipal(t.Context(), second.AccessToken))(t)
			must.Get(b.Introspect(t.Context(), b.client, second.AccessToken.Reveal()))(t)
			must.Get(b.Introspect(t.Context(), b.client, second.RefreshToken.Reveal()))(t)
		}
		if commits != 1 {
			t.Errorf("9 uses made %d commits, want 1", commits)
		}
	})
	t.Run("a_use_that_cannot_be_stored_is_unavailable", func(t *testing.T) {
		a, b, faults := opened(t)
		second := a.mustRefresh(t, a.first)
		faults.OnUpdate(func(func() error) error { return kv.ErrUnavailable })
		_, errFind := b.FindPrincipal(t.Context(), second.AccessToken)
		_, errAccess := b.Introspect(t.Context(), b.client, second.AccessToken.Reveal())
		_, errRefresh := b.Introspect(t.Context(), b.client, second.RefreshToken.Reveal())
		for _, err := range []error{errFind, errAccess, errRefresh} {
			refused(t, "a first use", err, record.ErrUnavailable)
		}
	})
	t.Run("a_pair_replaced_before_its_use_is_stored_is_unknown", func(t *testing.T) {
		a, b, faults := opened(t)
		second := a.mustRefresh(t, a.first)
		a.Clock.Advance(lives.RefreshGrace + tick)
		faults.OnUpdate(func(run func() error) error {
			a.mustRefresh(t, a.first)
			return run()
		})
		_, err := b.FindPrincipal(t.Context(), second.AccessToken)
		refused(t, "FindPrincipal(second)", err, record.ErrNotFound)
	})
}

// Promise (Browsers): a decision counts once: the same one again leads to the same place with the
// same code, at any server, while the code lives; then a page says what was decided; a user
// disabled in between allows nothing
func TestCodeAtTwoServersIsRedeemedOnce(t *testing.T) {
	t.Parallel()
	t.Run("in_turns", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			code := a.allow(t, challenge)
			issued := must.Get(b.redeem(code, verifier))(t)
			a.Clock.Advance(time.Minute)
			_, err := a.redeem(code, verifier)
			refused(t, "RedeemCode() again", err, record.ErrReplayed)
			b.familyIsDead(t, issued)
		})
	})
	t.Run("at_once", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			for range 5 {
				code := a.allow(t, challenge)
				errs := make([]error, 8)
				var callers sync.WaitGroup
				for i := range errs {
					callers.Go(func() { _, errs[i] = []grant{a, b}[i%2].redeem(code, verifier) })
				}
				callers.Wait()
				redeemed := 0
				for _, err := range errs {
					if err == nil {
						redeemed++
					} else {
						refused(t, "RedeemCode()", err, record.ErrReplayed)
					}
				}
				if redeemed != 1 {
					t.Errorf("%d of %d redemptions succeeded, want 1", redeemed, len(errs))
				}
			}
		})
	})
	t.Run("a_consent_screen_is_decided_once", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			c := a.consent(challenge)
			code := must.Get(a.Allow(t.Context(), c))(t)
			if again := must.Get(b.Allow(t.Context(), c))(t); !again.Equal(code) {
				t.Error("Allow() again, at the other server, gave another code")
			}
			_, err := b.Deny(t.Context(), c)
			refused(t, "Deny() after Allow()", err, record.ErrReplayed)
			must.Get(b.redeem(code, verifier))(t)
			_, err = a.Allow(t.Context(), c)
			refused(t, "Allow() of a redeemed code", err, record.ErrExpired)
		})
	})
}

// TestWhatEndsAtOneServerEndsAtTheOther at once, whatever the other has read before.
func TestWhatEndsAtOneServerEndsAtTheOther(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(ctx context.Context, a grant) error{
		"token_revoked": func(ctx context.Context, a grant) error {
			return a.RevokeToken(ctx, store.By{}, a.client, a.first.AccessToken.Reveal())
		},
		"family_revoked": func(ctx context.Context, a grant) error {
			_, err := a.RevokeFamily(ctx, store.By{}, a.first.FamilyID)
			return err
		},
		"user_disabled": func(ctx context.Context, a grant) error { _, err := a.DisableUser(ctx, "mara"); return err },
		"user_deleted":  func(ctx context.Context, a grant) error { return a.DeleteUser(ctx, "mara") },
		"account_disabled": func(ctx context.Context, a grant) error {
			_, err := a.DisableAccount(ctx, "acct_larkspur")
			return err
		},
		"account_revoked": func(ctx context.Context, a grant) error {
			_, err := a.RevokeAccount(ctx, "acct_larkspur")
			return err
		},
		"client_disabled": func(ctx context.Context, a grant) error { _, err := a.DisableClient(ctx, a.client.ID); return err },
		"client_deleted":  func(ctx context.Context, a grant) error { return a.DeleteClient(ctx, a.client.ID) },
		"password_reset": func(ctx context.Context, a grant) error {
			_, err := a.SetPassword(ctx, "mara", "another long phrase")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onShared(t, func(t *testing.T, a, b grant) {
				if !b.accessLives(t, a.first) {
					t.Fatal("a token does not live at the other")
				}
				must.Do(t, end(t.Context(), a))
				if b.accessLives(t, a.first) {
					t.Error("the token lives at the other")
				}
			})
		})
	}
	t.Run("session", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			token := a.signIn(t, secret.Token{})
			if !b.sessionLives(token) {
				t.Fatal("a session does not live at the other")
			}
			must.Do(t, b.DeleteSession(t.Context(), token))
			if a.sessionLives(token) {
				t.Error("a session that was ended at the other lives")
			}
		})
	})
	t.Run("origin_of_a_client", func(t *testing.T) {
		onShared(t, func(t *testing.T, a, b grant) {
			allows := func(want bool) {
				t.Helper()
				if got := must.Get(b.AllowsOrigin(t.Context(), "https://spa.example"))(t); got != want {
					t.Errorf("AllowsOrigin() at the other = %t, want %t", got, want)
				}
			}
			allows(false)
			c, _ := a.Client(t, func(spec *store.ClientSpec) {
				spec.Public, spec.RedirectURIs = true, []string{"https://spa.example/cb"}
			})
			allows(true)
			must.Get(a.DisableClient(t.Context(), c.ID))(t)
			allows(false)
			must.Get(a.EnableClient(t.Context(), c.ID))(t)
			allows(true)
			must.Do(t, a.DeleteClient(t.Context(), c.ID))
			allows(false)
		})
	})
}

// TestLatestUseIsTheLatestOfAllServers: each writes its own late and in any order.
func TestLatestUseIsTheLatestOfAllServers(t *testing.T) {
	onShared(t, func(t *testing.T, a, b grant) {
		session := a.signIn(t, secret.Token{})
		a.Rest()
		b.Rest() // the test alone writes uses
		a.Clock.Advance(10 * time.Minute)
		want := a.Now()
		for _, g := range []grant{a, b} {
			if !g.accessLives(t, a.first) || !g.sessionLives(session) {
				t.Fatal("a token or session does not live")
			}
		}
		a.Flush(t.Context())
		b.Clock.Advance(-3 * time.Minute) // the other's clock
		b.Flush(t.Context())
		if got := must.Get(b.LatestUses(t.Context(), a.client.ID))(t)[0]; !got.Equal(want) {
			t.Errorf("latest use of the client = %s, want %s", got, want)
		}
		if got := must.Get(b.FindSession(t.Context(), session))(t).SeenAt; !got.Equal(want) {
			t.Errorf("the session was last seen at %s, want %s", got, want)
		}
		if got := b.granted(t, a.user)[0].UsedAt; !got.Equal(want) {
			t.Errorf("the authorization was last used at %s, want %s", got, want)
		}
	})
}

func TestAuditLinesOfAllServersAreInOneLog(t *testing.T) {
	onShared(t, func(t *testing.T, a, b grant) {
		var behind record.Position
		for _, line := range must.Get(a.ListAudit(t.Context(), behind, 100))(t) {
			behind = line.Position
		}
		var writers sync.WaitGroup
		const each = 30
		for _, g := range []grant{a, b} {
			writers.Go(func() {
				for range each {
					g.Audit(store.AuditLine{What: store.AuditAdmin, Reason: "a change"})
					g.issue(t, store.ScopeUnstated) // a line of its own transaction
				}
				g.Flush(t.Context())
			})
		}
		writers.Wait()
		lines := must.Get(b.ListAudit(t.Context(), behind, 1000))(t)
		if len(lines) != 2*2*each {
			t.Errorf("%d lines, want %d", len(lines), 2*2*each)
		}
		for _, line := range lines {
			if line.Position.Compare(behind) <= 0 {
				t.Error("positions do not rise")
			}
			behind = line.Position
		}
	})
}

func TestOneBackupRunsAtATime(t *testing.T) {
	must.SkipInShort(t)
	onShared(t, func(t *testing.T, a, b grant) {
		r, w := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			_, err := a.Backup(t.Context(), w, store.BackupNotes{})
			ended <- errors.Join(err, w.Close())
		}()
		must.Get(io.ReadFull(r, make([]byte, 1)))(t) // it has begun
		for _, g := range []grant{a, b} {
			_, err := g.Backup(t.Context(), io.Discard, store.BackupNotes{})
			refused(t, "Backup() beside another", err, record.ErrUnavailable)
		}
		must.Get(io.Copy(io.Discard, r))(t)
		must.Do(t, <-ended)
		must.Get(b.Backup(t.Context(), io.Discard, store.BackupNotes{}))(t)
	})
}
