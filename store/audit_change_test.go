package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// aChange is a change that has an audit line.
type aChange struct {
	reason string
	do     func(ctx context.Context, s *store.Store) error
	isDone func(s *store.Store) bool
	ahead  bool // the line is written before the first step is done
}

// changesOf are the changes of what operators and platform clients manage.
func (h household) changesOf(t *testing.T) []aChange {
	t.Helper()
	ctx := t.Context()
	session := must.Get(h.ListSessions(ctx, h.user))(t)[0].Name()
	client := func(is func(c store.Client) bool) func(s *store.Store) bool {
		return func(s *store.Store) bool {
			c, err := s.FindClient(ctx, h.client.ID)
			return err == nil && is(c)
		}
	}
	user := func(name string, is func(u store.User) bool) func(s *store.Store) bool {
		return func(s *store.Store) bool {
			u, err := s.FindUser(ctx, name)
			return err == nil && is(u)
		}
	}
	exists := func(store.User) bool { return true }
	absent := func(find func(s *store.Store) error) func(s *store.Store) bool {
		return func(s *store.Store) bool { return errors.Is(find(s), record.ErrNotFound) }
	}
	sessions := func(n int) func(s *store.Store) bool {
		return func(s *store.Store) bool { return len(must.Get(s.ListSessions(ctx, h.user))(t)) < n }
	}
	events := func(s *store.Store) bool {
		page := must.Get(s.Events.ListEvents(ctx, "acct_fresh", eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1}, nil))(t)
		return len(page.Data) > 0
	}
	noAccount := absent(func(s *store.Store) error { _, err := s.FindAccount(ctx, "acct_left"); return err })
	name := "Renamed"
	deleteUser := func(ctx context.Context, s *store.Store) error { return s.DeleteUser(ctx, "mara") }
	deleteClient := func(ctx context.Context, s *store.Store) error { return s.DeleteClient(ctx, h.client.ID) }
	larkspur := must.Get(h.FindAccount(ctx, "acct_larkspur"))(t)
	account := func(is func(store.Account) bool) func(*store.Store) bool {
		return func(s *store.Store) bool { a, err := s.FindAccount(ctx, "acct_larkspur"); return err == nil && is(a) }
	}
	deleteAccount := func(ctx context.Context, s *store.Store) error { return s.DeleteAccount(ctx, "acct_left") }
	return []aChange{
		{reason: "account created", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.CreateAccount(ctx, "acct_new", "New")
			return err
		}, isDone: func(s *store.Store) bool { _, err := s.FindAccount(ctx, "acct_new"); return err == nil }},
		{reason: "account created", do: func(ctx context.Context, s *store.Store) error {
			_, _, err := s.PutAccount(ctx, "acct_new", nil)
			return err
		}, isDone: func(s *store.Store) bool { _, err := s.FindAccount(ctx, "acct_new"); return err == nil }},
		{reason: "account renamed", do: func(ctx context.Context, s *store.Store) error {
			_, _, err := s.PutAccount(ctx, "acct_left", &name)
			return err
		}, isDone: func(s *store.Store) bool {
			a, err := s.FindAccount(ctx, "acct_left")
			return err == nil && a.Name == name
		}},
		{reason: "account disabled", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.DisableAccount(ctx, "acct_larkspur")
			return err
		}, isDone: account(func(a store.Account) bool { return !a.DisabledAt.IsZero() })},
		{reason: "account enabled", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.EnableAccount(ctx, "acct_off")
			return err
		}, isDone: func(s *store.Store) bool {
			a, err := s.FindAccount(ctx, "acct_off")
			return err == nil && a.DisabledAt.IsZero()
		}},
		{reason: "all of the account revoked", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.RevokeAccount(ctx, "acct_larkspur")
			return err
		}, isDone: account(func(a store.Account) bool { return a.Generation != larkspur.Generation })},
		{reason: "account deletion begun", do: deleteAccount, isDone: func(s *store.Store) bool {
			if noAccount(s) {
				return true
			}
			_, err := s.RecordEvent(ctx, eventlog.NewEvent{Owner: "acct_left", Type: "plan.created", Resource: "p9", Object: snapshot.ObjectOf()})
			return errors.Is(err, record.ErrConflict)
		}},
		{reason: "account deleted", do: deleteAccount, isDone: noAccount},

		{reason: "client created", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.CreateFixedClient(ctx, "made", secret.New(nil, secret.ClientSecret), store.ClientSpec{Name: "Made", RedirectURIs: []string{storetest.CallbackURI}})
			return err
		}, isDone: func(s *store.Store) bool { _, err := s.FindClient(ctx, "made"); return err == nil }},
		{reason: "client updated", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.UpdateClient(ctx, h.client.ID, store.ClientChange{Name: &name})
			return err
		}, isDone: client(func(c store.Client) bool { return c.Name == name })},
		{reason: "client disabled", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.DisableClient(ctx, h.client.ID)
			return err
		}, isDone: client(func(c store.Client) bool { return !c.DisabledAt.IsZero() })},
		{reason: "client enabled", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.EnableClient(ctx, h.own.ID)
			return err
		}, isDone: func(s *store.Store) bool {
			c, err := s.FindClient(ctx, h.own.ID)
			return err == nil && c.DisabledAt.IsZero()
		}},
		{reason: "client secret rotated", do: func(ctx context.Context, s *store.Store) error {
			_, _, err := s.RotateClientSecret(ctx, h.client.ID, false)
			return err
		}, isDone: client(func(c store.Client) bool { return c.Secrets() == 2 })},
		{reason: "all of the client revoked", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.RevokeClient(ctx, h.client.ID)
			return err
		}, isDone: client(func(c store.Client) bool { return c.Generation != h.client.Generation })},
		{reason: "client deletion begun", do: deleteClient, isDone: func(s *store.Store) bool {
			c, err := s.FindClient(ctx, h.client.ID)
			return err != nil || !c.DisabledAt.IsZero()
		}},
		{reason: "client deleted", do: deleteClient, isDone: absent(func(s *store.Store) error { _, err := s.FindClient(ctx, h.client.ID); return err })},

		{reason: "user created", do: func(ctx context.Context, s *store.Store) error {
			_, _, err := s.CreateUser(ctx, store.UserSpec{Username: "olga", Account: "acct_olga", Password: storetest.Password})
			return err
		}, isDone: user("olga", exists)},
		{reason: "code made", do: func(ctx context.Context, s *store.Store) error {
			_, _, err := s.CreateUser(ctx, store.UserSpec{Username: "olga", Account: "acct_olga", Code: true})
			return err
		}, isDone: user("olga", exists)},
		{reason: "code made", do: func(ctx context.Context, s *store.Store) error {
			_, _, err := s.CreateUserCode(ctx, "mara", 0)
			return err
		}, isDone: user("mara", func(u store.User) bool { return !u.CodeExpiresAt().IsZero() })},
		{reason: "password set", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.SetPassword(ctx, "mara", setByCode)
			return err
		}, isDone: user("mara", func(u store.User) bool { return u.Generation != h.user.Generation })},
		{reason: "user disabled", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.DisableUser(ctx, "mara")
			return err
		}, isDone: user("mara", func(u store.User) bool { return !u.DisabledAt.IsZero() })},
		{reason: "user enabled", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.EnableUser(ctx, "kim")
			return err
		}, isDone: user("kim", func(u store.User) bool { return u.DisabledAt.IsZero() })},
		{reason: "user renamed", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.RenameUser(ctx, "mara", "maren")
			return err
		}, isDone: user("maren", exists)},
		{reason: "all of the user revoked", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.RevokeUser(ctx, "mara")
			return err
		}, isDone: user("mara", func(u store.User) bool { return u.Generation != h.user.Generation })},
		{reason: "user promoted", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.PromoteUser(ctx, "mara")
			return err
		}, isDone: user("mara", func(u store.User) bool { return u.Operator })},
		{reason: "user demoted", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.DemoteUser(ctx, "oona")
			return err
		}, isDone: user("oona", func(u store.User) bool { return !u.Operator })},
		{reason: "user deletion begun", do: deleteUser, isDone: func(s *store.Store) bool {
			u, err := s.FindUser(ctx, "mara")
			return err != nil || !u.DisabledAt.IsZero()
		}},
		{reason: "user deleted", do: deleteUser, isDone: absent(func(s *store.Store) error { _, err := s.FindUser(ctx, "mara"); return err })},

		{reason: "signed out by the operator", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.DeleteSessionNamed(ctx, session)
			return err
		}, isDone: sessions(2)},
		{reason: "signed out everywhere by the operator", do: func(ctx context.Context, s *store.Store) error {
			by, _ := store.ByOf(ctx)
			_, err := s.DeleteSessions(ctx, by, h.user)
			return err
		}, isDone: sessions(2)},
		{reason: "signed out everywhere else", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.DeleteOtherSessions(ctx, h.user, h.session)
			return err
		}, isDone: sessions(2)},

		{reason: "event recorded", do: func(ctx context.Context, s *store.Store) error {
			_, err := s.RecordEvent(ctx, eventlog.NewEvent{Owner: "acct_fresh", Type: "plan.created", Resource: "p1", Object: snapshot.ObjectOf()})
			return err
		}, isDone: events},
		{reason: "events imported", do: func(ctx context.Context, s *store.Store) error {
			im, err := s.NewImporter(ctx, "acct_fresh", eventlog.ImportOptions{})
			if err != nil {
				return err
			}
			for i := range 300 { // several batches
				if _, err := im.Add(ctx, fmt.Appendf(nil, `{"type":"plan.created","resource":"p%d","eventData":{"object":{}},"createdAt":%d}`, i, s.Now().Unix()), 0); err != nil {
					return err
				}
			}
			_, err = im.Flush(ctx)
			return err
		}, isDone: events},
		{reason: "events purged, of the account", do: func(ctx context.Context, s *store.Store) error {
			by, _ := store.ByOf(ctx)
			_, err := s.PurgeEvents(ctx, by, eventlog.Purge{Account: "acct_left"})
			return err
		}, isDone: func(s *store.Store) bool {
			page := must.Get(s.Events.ListEvents(ctx, "acct_left", eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 9}, nil))(t)
			return len(page.Data) == 0
		}, ahead: true},
	}
}

// TestNoChangeWithoutItsLine kills the process before each commit of each change.
//
// Promise (Platform §4, §5): a change and its audit line, which says who did it apart from what it
// was done to, are in one transaction: a kill at any moment leaves both or neither
func TestNoChangeWithoutItsLine(t *testing.T) {
	t.Parallel()
	h := keepHouse(t)
	for name, make := range map[string]func(string) error{
		"kim":  func(name string) error { _, err := h.DisableUser(t.Context(), name); return err },
		"oona": func(name string) error { _, err := h.PromoteUser(t.Context(), name); return err },
	} {
		h.User(t, name, "acct_larkspur")
		must.Do(t, make(name))
	}
	must.Get(h.DisableClient(t.Context(), h.own.ID))(t)
	must.Get(h.CreateAccount(t.Context(), "acct_off", ""))(t)
	must.Get(h.DisableAccount(t.Context(), "acct_off"))(t)
	actor := store.Actor{ClientID: "back-office", ClientName: "Back office"}
	for _, c := range h.changesOf(t) {
		t.Run(c.reason, func(t *testing.T) {
			kills, changed := 0, false
			h.EachKill(t, func(ctx context.Context, s *store.Store) error { return c.do(store.WithActor(ctx, actor), s) }, func(left *store.Store) {
				var lines []store.AuditLine
				for _, l := range must.Get(left.ListAudit(t.Context(), record.Position{}, 1000))(t) {
					if l.Reason == c.reason && l.Actor == actor {
						lines = append(lines, l)
					}
				}
				changed = c.isDone(left)
				if isRecorded := len(lines) == 1; len(lines) > 1 || changed != isRecorded && !(c.ahead && isRecorded) {
					t.Errorf("killed after %d commits: the change is there: %t, and its lines are %+v", kills, changed, lines)
				}
				if len(lines) == 1 && lines[0].ClientID+lines[0].UserID+lines[0].AccountID == "" {
					t.Errorf("the line %+v does not say what was changed", lines[0])
				}
				kills++
			})
			if !changed || kills < 2 {
				t.Errorf("the call changes nothing, in %d runs", kills)
			}
		})
	}
	t.Run("without_being_asked", func(t *testing.T) {
		before := len(must.Get(h.ListAudit(t.Context(), record.Position{}, 1000))(t))
		must.Get(h.PromoteUser(t.Context(), "mara"))(t)
		if after := len(must.Get(h.ListAudit(t.Context(), record.Position{}, 1000))(t)); after != before {
			t.Errorf("what the program does on its own has %d lines, want none", after-before)
		}
	})
}

// TestEveryCommitOfARecordHasItsLine looks at every method of a store: an account, a client or a
// user is not written without an audit line. A hash with newer parameters is no change.
func TestEveryCommitOfARecordHasItsLine(t *testing.T) {
	t.Parallel()
	h := keepHouse(t)
	commits := 0
	for _, c := range h.calls(t) {
		if c.Run == nil || c.Name == "AuthenticateUser" {
			continue
		}
		err := h.EachCommit(t, func(ctx context.Context, s *store.Store) error {
			_, err := c.Run(store.WithActor(ctx, store.Actor{OperatorID: "usr_olga"}), s)
			return err
		}, func(tags []byte) {
			if !bytes.ContainsAny(tags, string([]byte{record.TagAccount, record.TagClient, record.TagUser, record.TagUserName})) {
				return
			}
			if commits++; !bytes.Contains(tags, []byte{record.TagAudit}) {
				t.Errorf("%s writes the records %q in one commit, without an audit line", c.Name, tags)
			}
		})
		if err != nil {
			t.Logf("%s: %v", c.Name, err)
		}
	}
	if commits < 20 {
		t.Errorf("%d commits write an account, a client or a user, want more", commits)
	}
}

// TestTheAuditRecordIsAFeed: readers of one server follow what two write, while the clock stops
// and steps back.
//
// Promise (Platform §4, §5): a reader of the audit record that continues at its cursor misses no
// line and repeats none, whatever commits at the same time on two servers
func TestTheAuditRecordIsAFeed(t *testing.T) {
	t.Parallel()
	for name, open := range storetest.SharedEngines() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			fa, fb := storetest.Two(t, a, b)
			followAudit(t, fa, fb)
		})
	}
	t.Run("on_disk", func(t *testing.T) {
		t.Parallel()
		f := storetest.OnDisk(t)
		followAudit(t, f, f)
	})
}

func followAudit(t *testing.T, a, b *storetest.Fixture) {
	t.Helper()
	const writers, each, page = 6, 25, 7
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			f, ctx := []*storetest.Fixture{a, b}[w%2], store.WithActor(t.Context(), store.Actor{OperatorID: fmt.Sprint("usr_", w)})
			for i := range each {
				f.Clock.Advance(time.Duration(i%3-1) * time.Millisecond)
				if _, err := f.CreateAccount(ctx, fmt.Sprintf("acct_%d_%d", w, i), ""); err != nil {
					t.Error(err)
				}
				f.AuditRefusal(refusedSignIn(w))
			}
		})
	}
	ended := make(chan struct{})
	go func() { writing.Wait(); close(ended) }()
	var seen []record.Position
	for cursor, isEnd := (record.Position{}), false; !isEnd; {
		select {
		case <-ended:
			a.Flush(t.Context()) // its refusals
			isEnd = true
		default:
		}
		for {
			lines := must.Get(b.ListAudit(t.Context(), cursor, page))(t)
			for _, l := range lines {
				cursor = l.Position
				seen = append(seen, cursor)
			}
			if len(lines) < page {
				break
			}
		}
	}
	lines := must.Get(a.ListAudit(t.Context(), record.Position{}, 10_000))(t)
	changes := 0
	for i, l := range lines {
		if l.Reason == "account created" {
			changes++
		}
		if i >= len(seen) || seen[i] != l.Position {
			t.Fatalf("line %d of %d was missed, or seen twice", i, len(lines))
		}
	}
	if len(seen) != len(lines) || changes != writers*each {
		t.Errorf("%d lines were seen of %d, %d about changes; want all, and %d", len(seen), len(lines), changes, writers*each)
	}
}
