package pgkv

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// TestAHorizonIsAsOldAsTheFirstLookThatPassedIt is about sessions whose times may not be seen.
func TestAHorizonIsAsOldAsTheFirstLookThatPassedIt(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	var h horizons
	for minute := range 10 {
		h.note(horizon{at(minute), int64(100 + 10*minute), int64(5000 + minute)})
	}
	id := func(x int64) *int64 { return &x }
	for _, c := range []struct {
		name string
		in   Holder
		want time.Time
	}{
		{"older_than_what_is_known", Holder{horizon: id(42)}, at(0)},
		{"of_the_third_minute", Holder{horizon: id(125)}, at(3)},
		{"the_next_id_at_a_look", Holder{horizon: id(130)}, at(4)},
		{"new", Holder{horizon: id(189)}, at(9)},
		{"a_long_transaction_with_a_new_snapshot", Holder{horizon: id(189), Since: at(-60)}, at(9)},
		{"its_time_is_known_and_older", Holder{horizon: id(42), Since: at(-60)}, at(-60)},
		{"its_time_is_known_and_later", Holder{horizon: id(125), Since: at(5)}, at(5)},
		{"a_slot_by_its_log", Holder{Kind: HeldBySlot, lsn: id(5002)}, at(3)},
		{"a_slot_by_the_older_of_both", Holder{Kind: HeldBySlot, lsn: id(5006), horizon: id(111)}, at(2)},
		{"an_inactive_slot", Holder{Kind: HeldBySlot, lsn: id(5006), Since: at(1)}, at(1)},
		{"prepared", Holder{Kind: HeldByPrepared, horizon: id(42), Since: at(7)}, at(7)},
	} {
		h.date(&c.in)
		if !c.in.Since.Equal(c.want) {
			t.Errorf("%s: since %s, want %s", c.name, c.in.Since, c.want)
		}
	}
	for i := range 3 * horizonsMax {
		h.note(horizon{at(10 + i), int64(1000 + i), int64(9000 + i)})
	}
	if len(h) > horizonsMax || !h[0].at.Equal(at(0)) {
		t.Errorf("%d looks from %s on are known, want at most %d from the first on", len(h), h[0].at, horizonsMax)
	}
	h.note(horizon{at(9000), 7, 7})
	if len(h) != 1 {
		t.Errorf("%d looks are known of a database that went back, want one", len(h))
	}
}

// TestHoldersAreSeenWithoutPrivileges: a role without rights of monitoring serves and looks.
//
// Promise (Postgres §9): snapshots of other roles, prepared transactions and replication slots are seen
// with their holders and ages by a server's role without further privileges; its own backup is named so
func TestHoldersAreSeenWithoutPrivileges(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	server := pgtest.New(t, "max_prepared_transactions = 2", "wal_level = logical")
	admin := server.Database(t)
	server.Exec(t, admin, "create role till login")
	server.Exec(t, admin, "create schema tollhouse authorization till")
	server.Exec(t, admin, "grant create on schema public to public")
	dsn := strings.Replace(admin, "user=postgres", "user=till", 1)
	db := must.Get(Open(t.Context(), Options{URL: dsn}))(t)
	t.Cleanup(func() { _ = db.Close() })
	address := must.Get(ParseAddress(dsn))(t)
	p := must.Get(Join(t.Context(), PresenceOptions{
		Address: address, Server: Server{ID: []byte("one"), Started: time.Now()}, Log: slog.New(slog.DiscardHandler),
		Judge: func(Found) (map[string]string, error) { return nil, nil }, OnRefused: func(error) {}, OnLook: func(State) {}, OnSite: func(map[string]string) {},
	}))(t)
	t.Cleanup(p.Leave)
	beat := func() { t.Helper(); must.Do(t, p.beat(t.Context(), p.session)) }

	dump := server.Stranger(t, admin, "dumper", "pg_dump")
	dump.Exec(t, "begin isolation level repeatable read")
	dump.Exec(t, "select 1")
	two := server.Stranger(t, admin, "twophase", "")
	two.Exec(t, "begin; create table public.pending (a int); prepare transaction 'it''s pending'")
	server.Exec(t, admin, "select pg_create_physical_replication_slot('lost_standby', true)")
	backup := server.Stranger(t, admin, "till", "tollhouse backup")
	backup.Exec(t, "begin isolation level repeatable read")
	backup.Exec(t, "select 1")
	beat() // which takes an id, so that the snapshots are no longer of the newest
	beat()
	looker := must.Get(Dial(t.Context(), address))(t)
	t.Cleanup(looker.Close)
	seen := func() map[HolderKind]Holder {
		t.Helper()
		all := map[HolderKind]Holder{}
		for _, h := range p.State().Held {
			all[h.Kind] = h
		}
		return all
	}
	found := seen()
	for kind, want := range map[HolderKind]string{
		HeldBySession: `of role "dumper" (application_name "pg_dump")`, HeldByPrepared: `prepared transaction "it's pending" of role "twophase"`,
		HeldBySlot: `replication slot "lost_standby"`, HeldByBackup: "a backup or export of tollhouse (process ",
	} {
		h, ok := found[kind]
		if !ok || !strings.Contains(h.String(), want) || h.Since.IsZero() || h.Age(p.State().Clock.Now) >= HeldLong {
			t.Errorf("%s: %s since %s, want %s of the last seconds", kind, h, h.Since, want)
		}
	}
	if _, old, err := looker.Holders(t.Context(), must.Get(looker.Servers(t.Context()))(t)); err != nil || len(old) > 0 {
		t.Errorf("Holders() = %v, %v before they are old", old, err)
	}

	for i := range p.past { // five minutes pass
		p.past[i].at = p.past[i].at.Add(-5 * time.Minute)
	}
	beat()
	beat() // it writes what the one before saw
	now, old, err := looker.Holders(t.Context(), must.Get(looker.Servers(t.Context()))(t))
	must.Do(t, err)
	kinds := map[HolderKind]bool{}
	for _, h := range old {
		kinds[h.Kind] = true
		if age := h.Age(now); age < 4*time.Minute || age > time.Hour {
			t.Errorf("%s is %s old, want 5m", h, age)
		}
	}
	if !kinds[HeldBySession] || !kinds[HeldBySlot] {
		t.Errorf("Holders() = %v, want the old session and slot", old)
	}

	dump.Exec(t, "rollback")
	server.Exec(t, admin, "rollback prepared 'it''s pending'")
	server.Exec(t, admin, "select pg_drop_replication_slot('lost_standby')")
	beat()
	for kind, h := range seen() {
		if kind != HeldByBackup {
			t.Errorf("%s is still seen", h)
		}
	}
}

// TestLostPrivilegesAreSeen: the tables are those of a running server.
//
// Promise (Postgres §9): a server that loses a privilege on its tables is not ready, and says which
func TestLostPrivilegesAreSeen(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	server := pgtest.New(t)
	admin := server.Database(t)
	server.Exec(t, admin, "create role till login")
	server.Exec(t, admin, "create schema tollhouse authorization till")
	dsn := strings.Replace(admin, "user=postgres", "user=till", 1)
	must.Do(t, must.Get(Open(t.Context(), Options{URL: dsn}))(t).Close())
	p := must.Get(Join(t.Context(), PresenceOptions{
		Address: must.Get(ParseAddress(dsn))(t), Server: Server{ID: []byte("one"), Started: time.Now()}, Log: slog.New(slog.DiscardHandler),
		Judge: func(Found) (map[string]string, error) { return nil, nil }, OnRefused: func(error) {}, OnLook: func(State) {}, OnSite: func(map[string]string) {},
	}))(t)
	t.Cleanup(p.Leave)
	for _, c := range []struct{ privilege, table string }{{"update", "kv_0001"}, {"insert", "server"}, {"select", "turn"}} {
		server.Exec(t, admin, "revoke "+c.privilege+" on tollhouse."+c.table+" from till")
		_ = p.beat(t.Context(), p.session)
		if err := p.State().Unfit; err == nil || !strings.Contains(err.Error(), "lacks privileges: "+c.privilege+" on tollhouse."+c.table) {
			t.Errorf("Unfit = %v without %s on %s", err, c.privilege, c.table)
		}
		server.Exec(t, admin, "grant "+c.privilege+" on tollhouse."+c.table+" to till")
		must.Do(t, p.beat(t.Context(), p.session))
		if err := p.State().Unfit; err != nil {
			t.Errorf("Unfit = %v with %s on %s again", err, c.privilege, c.table)
		}
	}
}
