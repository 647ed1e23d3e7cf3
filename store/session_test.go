package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// signIn begins a session for the grant's user.
func (g grant) signIn(t testing.TB, old secret.Token) secret.Token {
	t.Helper()
	u := must.Get(g.FindUser(context.Background(), "mara"))(t)
	token, _, err := g.CreateSession(context.Background(), store.By{}, u, old, "")
	must.Do(t, err)
	return token
}

func (g grant) sessionLives(token secret.Token) bool {
	_, err := g.FindSession(context.Background(), token)
	return err == nil
}

// see uses a session late enough for that to be recorded, and returns once it is.
func (g grant) see(t testing.TB, token secret.Token) {
	t.Helper()
	g.untilWritten(func() {
		if !g.sessionLives(token) {
			t.Fatal("FindSession() refused a session that should live")
		}
	})
}

// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): session fixation
func TestSession(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("lives_twelve_hours_since_it_was_seen", func(t *testing.T) {
		g := parallelGrant(t)
		token := g.signIn(t, secret.Token{})
		g.Clock.Advance(lives.SessionIdle - tick)
		g.see(t, token)
		g.Clock.Advance(lives.SessionIdle - tick)
		g.see(t, token)
		g.Clock.Advance(lives.SessionIdle)
		if g.sessionLives(token) {
			t.Error("a session idle for 12 hours lives, want it dead")
		}
	})
	t.Run("in_steady_use_lives_however_short_the_idle_time_is", func(t *testing.T) {
		t.Parallel()
		for _, idle := range []time.Duration{time.Minute, 2 * time.Minute, 6 * time.Minute, time.Hour} {
			g := newGrant(t, func(o *store.Options) { o.Lifetimes.SessionIdle = idle })
			token := g.signIn(t, secret.Token{})
			g.Rest() // the test alone writes uses
			writes := 0
			g.Faults.OnUpdate(func(run func() error) error { writes++; return run() })
			use := func() bool {
				defer g.Flush(ctx)
				return g.sessionLives(token)
			}
			for range 24 {
				if g.Clock.Advance(idle / 12); !use() {
					t.Fatalf("a session in steady use is dead with an idle time of %s, want it alive", idle)
				}
			}
			if most := 2 * int(idle/min(idle/4, 5*time.Minute)); writes > most {
				t.Errorf("%d uses were written in twice the idle time of %s, want %d at most", writes, idle, most)
			}
			if g.Clock.Advance(idle*3/4 - tick); !use() {
				t.Errorf("a session is dead after three quarters of the idle time of %s, want it alive", idle)
			}
		}
	})
	t.Run("lives_seven_days_at_most", func(t *testing.T) {
		g := parallelGrant(t)
		token := g.signIn(t, secret.Token{})
		for age := time.Duration(0); age+lives.SessionIdle/2 < lives.Session; age += lives.SessionIdle / 2 {
			g.Clock.Advance(lives.SessionIdle / 2)
			g.see(t, token)
		}
		g.Clock.Advance(lives.SessionIdle/2 - tick)
		if !g.sessionLives(token) {
			t.Error("a session just short of 7 days is dead, want it alive")
		}
		g.Clock.Advance(tick)
		if g.sessionLives(token) {
			t.Error("a session of 7 days lives, want it dead")
		}
	})
	t.Run("ends_the_one_that_the_browser_held_before", func(t *testing.T) {
		g := parallelGrant(t)
		old := g.signIn(t, secret.Token{})
		fresh := g.signIn(t, old)
		if g.sessionLives(old) || !g.sessionLives(fresh) {
			t.Error("the old session lives or the new one does not, want the reverse")
		}
		if n := g.Count(t, 's') + g.Count(t, 'S'); n != 2 {
			t.Errorf("%d records of sessions are kept, want 2", n)
		}
	})
	t.Run("ends_with_the_password_and_with_the_user", func(t *testing.T) {
		g := parallelGrant(t)
		ends := map[string]func() error{
			"SetPassword":    func() error { _, err := g.SetPassword(ctx, "mara", "another long phrase"); return err },
			"DisableUser":    func() error { _, err := g.DisableUser(ctx, "mara"); return err },
			"DisableAccount": func() error { _, err := g.DisableAccount(ctx, "acct_larkspur"); return err },
			"RevokeAccount":  func() error { _, err := g.RevokeAccount(ctx, "acct_larkspur"); return err },
		}
		for name, end := range ends {
			token := g.signIn(t, secret.Token{})
			must.Do(t, end())
			if g.sessionLives(token) {
				t.Errorf("a session lives after %s, want it dead", name)
			}
			must.Get(g.EnableUser(ctx, "mara"))(t)
			must.Get(g.EnableAccount(ctx, "acct_larkspur"))(t)
			if g.sessionLives(token) {
				t.Errorf("a session lives again after %s and EnableUser, want it dead", name)
			}
		}
		token := g.signIn(t, secret.Token{})
		must.Do(t, g.DeleteUser(ctx, "mara"))
		if g.sessionLives(token) || g.Count(t, 's')+g.Count(t, 'S') != 0 {
			t.Error("sessions are left of a deleted user, want none")
		}
	})
	t.Run("is_refused_to_a_user_ended_since_the_password_was_proved", func(t *testing.T) {
		g := parallelGrant(t)
		stale := g.user
		end := func(end func() error) {
			t.Helper()
			must.Do(t, end())
			_, _, err := g.CreateSession(ctx, store.By{}, stale, secret.Token{}, "")
			refused(t, "CreateSession()", err, record.ErrDisabled)
			_, err = g.IssueForPassword(ctx, store.By{}, g.client, stale, store.ScopeUnstated)
			refused(t, "IssueForPassword()", err, record.ErrDisabled)
			stale = must.Get(g.FindUser(ctx, "mara"))(t)
		}
		end(func() error { _, err := g.SetPassword(ctx, "mara", "another long phrase"); return err })
		end(func() error { _, err := g.RevokeAccount(ctx, "acct_larkspur"); return err })
		end(func() error { _, err := g.DisableAccount(ctx, "acct_larkspur"); return err })
	})
	t.Run("is_deleted_and_twice_is_no_error", func(t *testing.T) {
		g := parallelGrant(t)
		token := g.signIn(t, secret.Token{})
		for range 2 {
			if err := g.DeleteSession(ctx, token); err != nil {
				t.Errorf("DeleteSession() = %v, want nil", err)
			}
		}
		if g.sessionLives(token) {
			t.Error("a deleted session lives")
		}
	})
}

func TestListSessions(t *testing.T) {
	g := parallelGrant(t)
	ctx := context.Background()
	old := g.signIn(t, secret.Token{})
	g.Clock.Advance(lives.SessionIdle - time.Hour)
	first := g.signIn(t, secret.Token{})
	g.Clock.Advance(time.Hour) // the old one is idle for too long now
	second := g.signIn(t, secret.Token{})
	nils := g.User(t, "nils", "acct_larkspur")
	if _, _, err := g.CreateSession(ctx, store.By{}, nils, secret.Token{}, ""); err != nil {
		t.Fatal(err)
	}
	list, err := g.ListSessions(ctx, g.user)
	if err != nil || len(list) != 2 || !list[0].Is(second) || !list[1].Is(first) || list[1].Is(old) {
		t.Errorf("ListSessions() = %d sessions, %v; want the user's two live ones, the newest first", len(list), err)
	}
	must.Get(g.SetPassword(ctx, "mara", "another long phrase"))(t)
	now := must.Get(g.FindUser(ctx, "mara"))(t)
	if list, err := g.ListSessions(ctx, now); err != nil || len(list) != 0 {
		t.Errorf("ListSessions() after another password = %d sessions, %v; want none", len(list), err)
	}
}

func TestDeleteOtherSessions(t *testing.T) {
	g := parallelGrant(t)
	ctx := context.Background()
	nils := g.User(t, "nils", "acct_larkspur")
	theirs, _, err := g.CreateSession(ctx, store.By{}, nils, secret.Token{}, "")
	must.Do(t, err)
	here := g.signIn(t, secret.Token{})
	var others []secret.Token
	for range 1100 { // more than one batch
		others = append(others, g.signIn(t, secret.Token{}))
	}
	for _, want := range []int{len(others), 0} {
		if ended, err := g.DeleteOtherSessions(ctx, g.user, here); err != nil || ended != want {
			t.Errorf("DeleteOtherSessions() = %d, %v; want %d", ended, err, want)
		}
	}
	if !g.sessionLives(here) || !g.sessionLives(theirs) {
		t.Error("this sign-in, or another user's, is dead, want both alive")
	}
	for _, token := range others {
		if g.sessionLives(token) {
			t.Fatal("another sign-in lives, want it dead")
		}
	}
	if n := g.Count(t, 's') + g.Count(t, 'S'); n != 4 {
		t.Errorf("%d records of sessions are kept, want 4", n)
	}
}

// A sign-in that the engine dropped before its entry in the list, or beside it, is passed
// over wherever the list is read.
func TestListsPassOverWhatIsGone(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	kept, gone := g.signIn(t, secret.Token{}), g.signIn(t, secret.Token{})
	another := g.issue(t, store.ScopeUnstated)
	g.Rest()
	family := must.Get(g.ListFamilies(ctx, store.FamilyFilter{}, "", 9))(t)
	must.Do(t, g.DB.Update(ctx, func(tx kv.Txn) error {
		id, _ := secret.ParseCrockford(strings.TrimPrefix(another.FamilyID, "fam_"))
		return errors.Join(tx.Delete(record.SessionKey(gone.Hash())), tx.Delete(record.FamilyKey(id)))
	}))
	own, err := g.ListSessions(ctx, g.user)
	if err != nil || len(own) != 1 || !own[0].Is(kept) {
		t.Errorf("ListSessions() = %d, %v, want the one that is left", len(own), err)
	}
	if live, err := g.ListLiveSessions(ctx, &g.user, "", 9); err != nil || len(live) != 1 {
		t.Errorf("ListLiveSessions() = %d, %v, want the one that is left", len(live), err)
	}
	if left, err := g.ListFamilies(ctx, store.FamilyFilter{User: &g.user}, "", 9); err != nil || len(left) != len(family)-1 {
		t.Errorf("ListFamilies() = %d of %d, %v, want one less", len(left), len(family), err)
	}
	if _, err := g.LatestUses(ctx, g.client.ID); err != nil {
		t.Errorf("LatestUses() = %v", err)
	}
	if ended, err := g.DeleteSessions(ctx, store.By{}, g.user); err != nil || ended != 1 || g.Count(t, record.TagUserSession) != 0 {
		t.Errorf("DeleteSessions() = %d, %v, and %d entries are left", ended, err, g.Count(t, record.TagUserSession))
	}
}
