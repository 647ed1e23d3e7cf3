package store_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// scanned is an engine that remembers where scans began.
type scanned struct {
	kv.DB
	lows [][]byte
}

func (s *scanned) View(ctx context.Context, fn func(kv.Reader) error) error {
	return s.DB.View(ctx, func(r kv.Reader) error { return fn(scannedReader{r, s}) })
}

type scannedReader struct {
	kv.Reader
	of *scanned
}

func (r scannedReader) Scan(rng kv.Range) iter.Seq2[[]byte, []byte] {
	r.of.lows = append(r.of.lows, rng.Lo)
	return r.Reader.Scan(rng)
}

// twice returns a bound that two scans began from, if any.
func (s *scanned) twice() []byte {
	seen := map[string]bool{}
	for _, lo := range s.lows {
		if seen[string(lo)] {
			return lo
		}
		seen[string(lo)] = true
	}
	return nil
}

// Deleted keys slow scans until the engine compacts them: erasing 200,000 events took
// minutes when each batch started again at the first key.
func TestErasingNeverBeginsAnewFromTheFirstKey(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	clock := storetest.NewClock()
	db := &scanned{DB: memkv.New(clock.Now)}
	f := storetest.Open(t, db, clock)
	t.Run("events_of_an_account", func(t *testing.T) {
		im := must.Get(f.Events.NewImporter("acct_large", eventlog.ImportOptions{}))(t)
		at := strconv.FormatInt(clock.Now().Unix(), 10)
		for i := range 900 { // more than two batches
			line := `{"type":"widget.updated","resource":"w` + strconv.Itoa(i) + `","createdAt":` + at + `,"eventData":{"object":{"a":"x"}}}`
			if refused, err := im.Add(ctx, []byte(line), 0); err != nil || len(refused) > 0 {
				t.Fatalf("Add = %v, %v", refused, err)
			}
		}
		must.Get(im.Flush(ctx))(t)
		db.lows = nil
		must.Do(t, f.DeleteAccount(ctx, "acct_large"))
		for _, tag := range []byte("Exnoha") {
			if n := f.Count(t, tag); n != 0 {
				t.Errorf("%d keys under %q are left", n, tag)
			}
		}
		// Users and clients are listed before and after the account is closed.
		db.lows = slices.DeleteFunc(db.lows, func(lo []byte) bool { return lo[0] == 'A' || lo[0] == 'c' })
		if lo := db.twice(); lo != nil {
			t.Errorf("two scans began at %q", lo)
		}
	})
	t.Run("tokens_of_a_user", func(t *testing.T) {
		c, _ := f.Client(t)
		u := f.User(t, "bob", "acct_small")
		for range 250 { // more than two batches
			must.Get(f.IssueForPassword(ctx, store.By{}, c, u, store.ScopeUnstated))(t)
		}
		db.lows = nil
		must.Do(t, f.DeleteUser(ctx, "bob"))
		if n := f.Count(t, 'f'); n != 0 {
			t.Errorf("%d families are left", n)
		}
		if lo := db.twice(); lo != nil {
			t.Errorf("two scans began at %q", lo)
		}
	})
}

// Nothing is recorded in an account while it is erased. Otherwise the next account of
// that name would inherit it.
func TestDeleteAccountAgainstWhoComesMeanwhile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	f.User(t, "bob", "acct_a")
	refused(t, "DeleteAccount(with a user)", f.DeleteAccount(ctx, "acct_a"), record.ErrConflict)
	if _, _, err := f.CreateUser(ctx, store.UserSpec{Username: "carol", Account: "acct_a", Password: storetest.Password}); err != nil {
		t.Fatalf("CreateUser() after a refused erasure = %v", err)
	}
	// No update is made, so none can fail and leave the account closed.
	f.CutAt(0, false)
	refused(t, "DeleteAccount(with a user, while nothing can be written)", f.DeleteAccount(ctx, "acct_a"), record.ErrConflict)
	f.Faults.Repair()
	if _, err := f.Events.PutResource(ctx, eventlog.ResourceChange{Owner: "acct_a", Kind: "customer", ID: "cus_0"}, snapshot.ObjectOf()); err != nil {
		t.Errorf("a change after a refused erasure = %v", err)
	}
	for _, name := range []string{"bob", "carol"} {
		must.Do(t, f.DeleteUser(ctx, name))
	}

	var late []error
	f.Rest()
	f.Faults.OnUpdate(func(run func() error) error {
		f.Faults.Repair()
		err := run() // the first step of erasing
		_, _, userErr := f.CreateUser(ctx, store.UserSpec{Username: "dave", Account: "acct_a", Password: storetest.Password})
		_, changeErr := f.Events.PutResource(ctx, eventlog.ResourceChange{Owner: "acct_a", Kind: "customer", ID: "cus_1"}, snapshot.ObjectOf())
		_, _, clientErr := f.CreateClient(ctx, store.ClientSpec{Name: "Worker", Grants: []string{"client_credentials"}, Account: "acct_a"})
		late = []error{userErr, changeErr, clientErr}
		return err
	})
	must.Do(t, f.DeleteAccount(ctx, "acct_a"))
	if len(late) != 3 {
		t.Fatal("no event was recorded during the erasure")
	}
	for _, err := range late {
		refused(t, "a write while the account is erased", err, record.ErrConflict)
	}
	for _, tag := range []byte("ExnohaUA") {
		if n := f.Count(t, tag); n != 0 {
			t.Errorf("%d keys under %q are left", n, tag)
		}
	}
}

// Of two deletions at once, the slower may be at any step when the faster has ended and an
// account of that id is made again.
func TestADeletionLeavesTheNextAccountOfThatIDAlone(t *testing.T) {
	t.Parallel()
	for step := 2; ; step++ { // behind the first, which begins it
		if !overtakenDeletion(t, step) {
			if step < 8 {
				t.Errorf("a deletion has only %d steps", step-1)
			}
			return
		}
	}
}

// overtakenDeletion has another process delete an account and fill it again before a step
// of a deletion, and returns false if there is no such step.
func overtakenDeletion(t *testing.T, step int) (overtaken bool) {
	ctx := context.Background()
	f := storetest.New(t)
	f.Rest()
	fill := func(s *store.Store, resource string) {
		must.Get(s.Events.PutResource(ctx, eventlog.ResourceChange{Owner: "acct_a", Kind: "plan", ID: resource}, snapshot.ObjectOf()))(t)
		_, _, err := s.Webhooks.Create(ctx, webhook.By{}, "acct_a", webhook.Settings{URL: "https://hooks.example/a"})
		must.Do(t, err)
		storetest.ImportLines(t, s, "acct_a", fmt.Sprintf(`{"type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":%d}`, s.Now().Add(-30*time.Hour).Unix())) // counted by hour
	}
	fill(f.Store, "old")
	other := f.Reopened(t)
	f.Clock.Advance(time.Second)
	var want map[string]string
	steps := 0
	f.Faults.OnUpdate(func(run func() error) error {
		if steps++; steps < step {
			return run()
		}
		f.Faults.Repair()
		must.Do(t, other.DeleteAccount(ctx, "acct_a"))
		fill(other, "new")
		want = everything(t, f.DB)
		return run()
	})
	err := f.DeleteAccount(ctx, "acct_a")
	if steps < step {
		must.Do(t, err)
		return false
	}
	refused(t, "DeleteAccount(erased by another)", err, record.ErrNotFound)
	if got := everything(t, f.DB); !maps.Equal(got, want) {
		t.Errorf("a deletion that was overtaken before its step %d has changed the next account: %d records, want %d", step, len(got), len(want))
	}
	return true
}

// A repeated call, perhaps by another process, does not stop the one that it repeats.
func TestADeletionGoesOnBesideAnother(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	f.Rest()
	must.Get(f.CreateAccount(ctx, "acct_a", ""))(t)
	other, steps := f.Reopened(t), 0
	f.Faults.OnUpdate(func(run func() error) error {
		if steps++; steps < 2 {
			return run()
		}
		f.Clock.Advance(time.Second)
		f.CutAt(1, false)
		refused(t, "DeleteAccount(killed)", other.DeleteAccount(ctx, "acct_a"), record.ErrUnavailable)
		f.Faults.Repair()
		return run()
	})
	must.Do(t, f.DeleteAccount(ctx, "acct_a"))
	if steps < 2 {
		t.Error("no other call was made")
	}
}

func everything(t *testing.T, db kv.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	must.Do(t, db.View(t.Context(), func(r kv.Reader) error {
		for k, v := range r.Scan(kv.Range{}) {
			all[string(k)] = string(v)
		}
		return nil
	}))
	return all
}

// Promise (Platform §3): an account with users or with clients bound to it is not deleted: a later
// account of its name must not revive them
func TestAnAccountInUseIsNotDeleted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := storetest.New(t)
	account := "acct_a"
	bind := store.ClientChange{Grants: &[]string{"client_credentials"}, Account: &account}
	var inUse *store.AccountInUseError
	f.Client(t)
	client, _ := f.Client(t)
	must.Get(f.UpdateClient(ctx, client.ID, bind))(t)
	if err := f.DeleteAccount(ctx, account); !errors.As(err, &inUse) || !inUse.Clients || !errors.Is(err, record.ErrConflict) {
		t.Errorf("DeleteAccount(with a client) = %v", err)
	}
	bob := f.User(t, "bob", account)
	if err := f.DeleteAccount(ctx, account); !errors.As(err, &inUse) || inUse.Clients {
		t.Errorf("DeleteAccount(with a user) = %v", err)
	}
	must.Do(t, f.DeleteUser(ctx, bob.Subject()))
	if c := must.Get(f.FindClient(ctx, client.ID))(t); c.Account != account {
		t.Error("a refused deletion has changed the client")
	}
	// A client that is bound while the account is closed to writes.
	must.Do(t, f.DeleteClient(ctx, client.ID))
	late, _ := f.Client(t)
	f.Rest()
	f.Faults.OnUpdate(func(run func() error) error {
		f.Faults.Repair()
		must.Get(f.UpdateClient(ctx, late.ID, bind))(t)
		return run()
	})
	if err := f.DeleteAccount(ctx, account); !errors.As(err, &inUse) || !inUse.Clients {
		t.Errorf("DeleteAccount(with a client bound in the meantime) = %v", err)
	}
	if _, err := f.IssueForClient(ctx, store.By{}, must.Get(f.FindClient(ctx, late.ID))(t), "", store.ScopeUnstated); err != nil {
		t.Errorf("IssueForClient() after a refused erasure = %v", err)
	}
}
