package store_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// furnished returns a store with a record of every kind.
func furnished(t testing.TB) *storetest.Fixture {
	t.Helper()
	ctx := context.Background()
	f := storetest.New(t)
	f.Clock.Advance(time.Since(f.Clock.Now())) // engines on disk expire by the wall clock
	client, _ := f.Client(t)
	g := grant{Fixture: f, client: client, user: f.User(t, "mara", "acct_larkspur")}
	g.first = g.issue(t, store.ScopeUnstated)
	g.mustRefresh(t, g.first)
	token, _, err := f.CreateSession(ctx, store.By{}, g.user, secret.Token{}, "")
	must.Do(t, err)
	must.Get(f.FindSession(ctx, token))(t)
	for _, redeem := range []bool{true, false} {
		code, err := f.Allow(ctx, store.Consent{Client: g.client, User: g.user, RedirectURI: storetest.CallbackURI,
			Ticket: secret.Text(nil), TicketEnds: f.Now().Add(2 * time.Hour)})
		if err == nil && redeem {
			_, err = f.RedeemCode(ctx, store.Redemption{Client: g.client, Code: code, RedirectURI: storetest.CallbackURI})
		}
		must.Do(t, err)
	}
	begin := f.Now().Add(-48 * time.Hour).Unix()
	var lines []string
	for i := range 120 {
		id := ""
		if i%3 == 0 {
			id = fmt.Sprintf(`"id":"foreign-%d",`, i)
		}
		lines = append(lines, fmt.Sprintf(`{%s"type":"%s.%s","resource":"r%d","eventData":{"object":{"note":%q}},"createdAt":%d}`,
			id, []string{"customer", "plan"}[i%2], []string{"created", "updated"}[i/2%2], i/4%4, noise(i, 300), begin+int64(i)))
	}
	storetest.ImportLines(t, f.Store, "acct_larkspur", lines...)
	storetest.ImportLines(t, f.Store, "acct_other", lines[:7]...)
	f.Audit(store.AuditLine{What: store.AuditAdmin, Reason: "a line that waits"})
	return f
}

// noise returns incompressible text, the same for the same seed.
func noise(seed, size int) string {
	raw := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = r.Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

func backUp(t testing.TB, f *storetest.Fixture) []byte {
	t.Helper()
	var file bytes.Buffer
	must.Get(f.Backup(context.Background(), &file, store.BackupNotes{Version: "test", Key: f.Key.Fingerprint()}))(t)
	return file.Bytes()
}

// check reads a backup as verify does.
func check(file io.Reader) (backup.Totals, error) {
	b, err := store.OpenBackup(file)
	if err != nil {
		return backup.Totals{}, err
	}
	defer b.Close()
	return b.Check(context.Background())
}

// recordsOf returns all records of an engine, one per line.
func recordsOf(t testing.TB, db kv.DB) []string {
	t.Helper()
	var lines []string
	must.Do(t, db.(kv.Snapshotter).Snapshot(context.Background(), func(page []kv.Record) error {
		for _, r := range page {
			lines = append(lines, recordLine(r))
		}
		return nil
	}))
	return lines
}

func recordLine(r kv.Record) string { return fmt.Sprintf("%q = %x", r.Key, r.Value) }

// Promise (Backup): a backup is one file; verify checks every record and every index of it
func TestBackup(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	ctx := context.Background()
	f := furnished(t)
	file := backUp(t, f)
	t.Run("a_restored_store_is_the_one_that_was_backed_up", func(t *testing.T) {
		t.Parallel()
		onDisk := storetest.EmptyOnDisk(t)
		want := recordsOf(t, f.DB)
		for _, db := range []kv.DB{storetest.EmptyInMemory(), onDisk} {
			b := must.Get(store.OpenBackup(bytes.NewReader(file)))(t)
			totals, err := b.Load(ctx, db, time.Now())
			b.Close()
			if got := recordsOf(t, db); err != nil || !equal(got, want) || totals.Records != int64(len(want)) {
				t.Errorf("%T: Load() = %d records, %vand stored %d, want the %d of the store", db, totals.Records, err, len(got), len(want))
			}
			restored := storetest.Open(t, db, f.Clock)
			if n, err := restored.CheckAll(ctx); err != nil || n != int64(len(want)) || restored.InstanceID() != f.InstanceID() {
				t.Errorf("%T: CheckAll() = %d, %v, instance %s; want %d and %s", db, n, err, restored.InstanceID(), len(want), f.InstanceID())
			}
			if _, err := restored.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password); err != nil {
				t.Errorf("%T: the user cannot sign in: %v", db, err)
			}
		}
	})
	t.Run("counts_of_events_come_back", func(t *testing.T) {
		t.Parallel()
		f := furnished(t)
		storetest.ImportLines(t, f.Store, "acct_a", fmt.Sprintf(`{"type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":%d}`, f.Now().Unix()),
			fmt.Sprintf(`{"id":"old","type":"plan.created","resource":"p1","eventData":{"object":{}},"createdAt":%d}`, f.Now().Add(-30*time.Hour).Unix()))
		b := must.Get(store.OpenBackup(bytes.NewReader(backUp(t, f))))(t)
		defer b.Close()
		db := storetest.EmptyInMemory()
		must.Get(b.Load(ctx, db, time.Now()))(t)
		restored := storetest.Open(t, db, f.Clock)
		counted := func(s *store.Store) []eventlog.CountedUnit {
			return must.Get(s.Events.EventCounts(ctx, "", eventlog.ByHour, f.Now().Add(-48*time.Hour), f.Now().Add(time.Hour)))(t)
		}
		if got, want := counted(restored.Store), counted(f.Store); !reflect.DeepEqual(got, want) || len(want) < 2 {
			t.Errorf("the restored store counts %v, want %v", got, want)
		}
	})
	t.Run("its_header_names_the_store_and_holds_no_secret", func(t *testing.T) {
		t.Parallel()
		b := must.Get(store.OpenBackup(bytes.NewReader(file)))(t)
		defer b.Close()
		if b.Instance != f.InstanceID() || b.Key != f.Key.Fingerprint() || !b.Created.Equal(f.Now().Truncate(time.Second)) || b.Format != backup.Format {
			t.Errorf("header = %+v", b.Header)
		}
		if bytes.Contains(file, bytes.TrimSpace(f.Key.Text())) {
			t.Error("the server key is in the backup")
		}
	})
	t.Run("it_has_audit_lines_not_yet_written", func(t *testing.T) {
		t.Parallel()
		totals, err := check(bytes.NewReader(file))
		if err != nil || totals.Kinds["l"] == 0 || store.NameKinds(totals.Kinds)["events"] != 127 {
			t.Errorf("Check() = %+v, %v; want audit lines and 127 events", totals, err)
		}
		kinds := ""
		for kind := range totals.Kinds {
			kinds += kind
		}
		for _, kind := range "mcuUaAsSdkKfFWtrlhExno" {
			if !strings.ContainsRune(kinds, kind) {
				t.Errorf("the fixture has no record of the kind %q, so it proves nothing of them", kind)
			}
		}
	})
	t.Run("cut_at_any_byte_it_is_refused", func(t *testing.T) {
		t.Parallel()
		if len(file) < 32<<10 || len(file) > 128<<10 {
			t.Errorf("the backup has %d bytes, want about 64 KiB", len(file))
		}
		accepted := 0
		for n := range file {
			if _, err := check(bytes.NewReader(file[:n])); !errors.Is(err, backup.ErrTruncated) {
				if accepted++; accepted == 1 {
					t.Errorf("cut at byte %d of %d: Check() = %v, want ErrTruncated", n, len(file), err)
				}
			}
		}
		must.Figure(t, "truncations", len(file))
		must.Figure(t, "accepted", accepted)
	})
	t.Run("with_a_flipped_bit_or_a_byte_more_it_is_refused", func(t *testing.T) {
		t.Parallel()
		for at := 0; at < len(file); at += 1 + at/200 {
			flipped := bytes.Clone(file)
			flipped[at] ^= 1 << (at % 8)
			_, err := check(bytes.NewReader(flipped))
			if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrForeign) && !errors.Is(err, backup.ErrTruncated) {
				t.Errorf("byte %d flipped: Check() = %v, want a refusal", at, err)
			}
		}
		if _, err := check(bytes.NewReader(append(bytes.Clone(file), 0))); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("one byte more: Check() = %v, want ErrDamaged", err)
		}
	})
	t.Run("a_foreign_file_is_reported_as_foreign", func(t *testing.T) {
		t.Parallel()
		for _, foreign := range []string{"PK\x03\x04", `{"id":"evt_1"}`, strings.Repeat("x", 100)} {
			if _, err := check(strings.NewReader(foreign)); !errors.Is(err, backup.ErrForeign) {
				t.Errorf("Check(%.10q) = %v, want ErrForeign", foreign, err)
			}
		}
	})
}

func equal(a, b []string) bool { return strings.Join(a, "\n") == strings.Join(b, "\n") }

// TestBackupRefusesASecond: one backup at a time, and errors of the engine are returned.
func TestBackupRefusals(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	_, err := f.Backup(context.Background(), writerFunc(func(p []byte) (int, error) {
		_, second := f.Backup(context.Background(), io.Discard, store.BackupNotes{})
		if !errors.Is(second, record.ErrUnavailable) {
			t.Errorf("Backup(during another) = %v, want ErrUnavailable", second)
		}
		return len(p), nil
	}), store.BackupNotes{})
	if err != nil {
		t.Errorf("Backup() = %v, want nil", err)
	}
	full := errors.New("no space left on device")
	_, err = f.Backup(context.Background(), writerFunc(func([]byte) (int, error) { return 0, full }), store.BackupNotes{})
	if !errors.Is(err, full) {
		t.Errorf("Backup(to a full disk) = %v, want what the writer said", err)
	}
	var other bytes.Buffer
	b := must.Get(backup.NewWriter(&other, backup.Header{Schema: 1, Instance: strings.Repeat("0", 32), Created: f.Now()}))(t)
	must.Do(t, f.DB.(kv.Snapshotter).Snapshot(context.Background(), func(page []kv.Record) error { return b.Add(page) }))
	must.Get(b.Close())(t)
	if _, err := check(&other); !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), "instance") {
		t.Errorf("Check(a header of another store) = %v, want that it is damaged", err)
	}
	f.Faults.Break(record.ErrUnavailable)
	if _, err := f.Backup(context.Background(), io.Discard, store.BackupNotes{}); !errors.Is(err, record.ErrUnavailable) {
		t.Errorf("Backup(broken) = %v, want ErrUnavailable", err)
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// logKey returns the segment and the list of a key of a log.
func logKey(k []byte) (start uint64, list byte) {
	if k[0] != 'E' {
		return 0, 0
	}
	start = binary.BigEndian.Uint64(append([]byte{0, 0}, k[1:7]...))
	return start, k[7+bytes.IndexByte(k[7:], 0)+1]
}

// TestCheckAll damages a whole store in every way that leaves each record readable by
// itself, and then in some ways that do not.
//
// Promise (Backup): a backup is one file; verify checks every record and every index of it
func TestCheckAll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	// first returns the first key of a kind, and its value; of the first segment of a
	// log for the lists e, y and z, and of a later one for E.
	first := func(t *testing.T, f *storetest.Fixture, kind byte) (key, value []byte) {
		t.Helper()
		err := f.DB.View(ctx, func(r kv.Reader) error {
			tag := kind
			if strings.IndexByte("eyz", kind) >= 0 {
				tag = 'E'
			}
			for k, v := range r.Scan(kv.Range{Lo: []byte{tag}, Hi: []byte{tag + 1}}) {
				if start, list := logKey(k); tag == 'E' && (kind == 'E') != (start > 0) || kind != tag && list != kind {
					continue
				}
				key, value = bytes.Clone(k), bytes.Clone(v)
				return nil
			}
			return nil
		})
		if err != nil || key == nil {
			t.Fatalf("no record of the kind %q: %v", kind, err)
		}
		return key, value
	}
	remove := func(kind byte) func(*testing.T, *storetest.Fixture, kv.Txn) error {
		return func(t *testing.T, f *storetest.Fixture, tx kv.Txn) error {
			k, _ := first(t, f, kind)
			return tx.Delete(k)
		}
	}
	change := func(kind byte, how func([]byte) []byte) func(*testing.T, *storetest.Fixture, kv.Txn) error {
		return func(t *testing.T, f *storetest.Fixture, tx kv.Txn) error {
			k, v := first(t, f, kind)
			return tx.Set(k, how(v), time.Time{})
		}
	}
	twin := func(kind byte) func(*testing.T, *storetest.Fixture, kv.Txn) error {
		return func(t *testing.T, f *storetest.Fixture, tx kv.Txn) error {
			k, v := first(t, f, kind)
			k[len(k)-1] ^= 1
			if kind == 'x' {
				k = append(k[:len(k)-2], 'X', 0)
			}
			return tx.Set(k, v, time.Time{})
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*testing.T, *storetest.Fixture, kv.Txn) error
		want   string
	}{
		{"event_without_its_entries", twin('e'), "its log counts"},
		{"event_of_a_later_segment_without_its_entries", twin('E'), "its log counts"},
		{"event_of_a_later_segment_missing", remove('E'), "its log counts"},
		{"event_missing", remove('e'), "its log counts"},
		{"type_copy_missing", remove('y'), "the list by type has"},
		{"type_copy_of_another_text", change('y', func(v []byte) []byte { return bytes.Replace(v, []byte("r0"), []byte("r9"), 1) }), "the list by type has"},
		{"type_copy_without_its_event", twin('y'), "the list by type has"},
		{"resource_mark_missing", remove('z'), "the list by resource has"},
		{"foreign_id_missing", remove('x'), "the list of ids given elsewhere has"},
		{"foreign_id_without_its_event", twin('x'), "the list of ids given elsewhere has"},
		{"known_type_missing", remove('n'), "does not list the type"},
		{"known_type_that_counts_wrong", change('n', func(v []byte) []byte { v[1]++; return v }), "its log counts"},
		{"head_missing", remove('h'), "and no head"},
		{"head_before_its_events", change('h', func(v []byte) []byte { clear(v[9:17]); return v }), "are outside the range of its head"},
		{"user_without_a_name", remove('U'), "is missing from the list of names"},
		{"name_without_a_user", remove('u'), "1 users are in the list of names or of an account only"},
		{"user_with_two_names", func(t *testing.T, f *storetest.Fixture, tx kv.Txn) error {
			_, id := first(t, f, 'U')
			return tx.Set([]byte("Uzz\x00"), id, time.Time{})
		}, "in the list of names twice"},
		{"user_not_listed_by_account", remove('A'), "a name has a user who is in no account's list"},
		{"account_lists_an_unknown_user", twin('A'), "1 users are in the list of names or of an account only"},
		{"user_listed_by_another_account", func(t *testing.T, f *storetest.Fixture, tx kv.Txn) error {
			k, _ := first(t, f, 'A')
			return errors.Join(tx.Delete(k), tx.Set(append([]byte("Aacct_other\x00"), k[len(k)-16:]...), nil, time.Time{}))
		}, "is missing from the list of the account's users"},
		{"user_listed_by_two_accounts", func(t *testing.T, f *storetest.Fixture, tx kv.Txn) error {
			k, _ := first(t, f, 'A')
			return tx.Set(append([]byte("Aacct_other\x00"), k[len(k)-16:]...), nil, time.Time{})
		}, "in the lists of two accounts"},
		{"client_missing", remove('c'), "clients, and 1 are counted"},
		{"session_not_listed", remove('S'), "a sign-in is not in its user's list"},
		{"code_not_listed", remove('K'), "authorization code is not in its user's list"},
		{"family_not_listed_by_client", remove('F'), "a family is not in its client's list"},
		{"family_not_listed_by_user", remove('W'), "a family is not in its user's list"},
		{"audit_line_behind_the_head", func(t *testing.T, f *storetest.Fixture, tx kv.Txn) error {
			k, v := first(t, f, 'l')
			return tx.Set(append(k[:1], bytes.Repeat([]byte{0xff}, 16)...), v, time.Time{})
		}, "continues after its head"},
		{"store_record_missing", func(_ *testing.T, _ *storetest.Fixture, tx kv.Txn) error { return tx.Delete([]byte("mstore\x00")) }, "the store's own record is missing"},
		{"record_cut_short", change('c', func(v []byte) []byte { return v[:len(v)-1] }), "client record: "},
		{"event_of_another_account", change('e', func(v []byte) []byte { return bytes.Replace(v, []byte("acct_larkspur"), []byte("acct_larkspor"), 1) }), "belongs to another account"},
		{"event_that_is_not_json", change('e', func(v []byte) []byte { return bytes.Replace(v, []byte(`{"object"`), []byte(`{'object"`), 1) }), "not valid JSON"},
		{"event_of_another_time", change('e', func(v []byte) []byte { v[len(v)-2] = '0' + (v[len(v)-2]-'0'+1)%10; return v }), "createdAt disagrees with its position"},
		{"resource_that_is_not_json", change('o', func(v []byte) []byte { return bytes.Replace(v, []byte(`{"`), []byte(`{{`), 1) }), "not valid JSON"},
		{"unknown_kind", func(_ *testing.T, _ *storetest.Fixture, tx kv.Txn) error {
			return tx.Set([]byte("Z1"), nil, time.Time{})
		}, "unknown kind of record 'Z'"},
		{"list_entry_with_a_value", change('S', func(v []byte) []byte { return append(v, 1) }), "an index entry has a value"},
		{"webhook_endpoint_that_is_listed_only", func(_ *testing.T, _ *storetest.Fixture, tx kv.Txn) error {
			return tx.Set([]byte("b0123456789abcdef"), []byte("acct_larkspur"), time.Time{})
		}, "is in the list only"},
		{"name_of_no_user's_form", change('U', func(v []byte) []byte { return v[1:] }), "user name record: 15 bytes long"},
		{"key_without_an_end", func(_ *testing.T, _ *storetest.Fixture, tx kv.Txn) error {
			return tx.Set([]byte("cabc"), nil, time.Time{})
		}, "malformed key"},
		{"key_that_is_too_short", func(_ *testing.T, _ *storetest.Fixture, tx kv.Txn) error {
			return tx.Set([]byte("f1"), nil, time.Time{})
		}, "malformed key"},
		{"key_of_a_segment_that_is_too_short", func(_ *testing.T, _ *storetest.Fixture, tx kv.Txn) error {
			return tx.Set([]byte("E123456a\x00"), nil, time.Time{})
		}, "malformed key"},
		{"key_of_all_events_with_a_name", func(_ *testing.T, _ *storetest.Fixture, tx kv.Txn) error {
			return tx.Set([]byte("E123456a\x00ebcd\x000123456789abcdef"), nil, time.Time{})
		}, "malformed key"},
		{"key_of_an_event_without_a_segment", func(_ *testing.T, _ *storetest.Fixture, tx kv.Txn) error {
			return tx.Set([]byte("eacct_larkspur\x000123456789abcdef"), nil, time.Time{})
		}, "unknown kind of record 'e'"},
		{"key_of_a_segment_of_another_kind", func(_ *testing.T, _ *storetest.Fixture, tx kv.Txn) error {
			return tx.Set([]byte("E123456a\x00obcd\x000123456789abcdef"), nil, time.Time{})
		}, "malformed key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := furnished(t)
			f.FlushLastUsed(ctx)
			if _, err := f.ListAudit(ctx, record.Position{}, 1); err != nil { // writes the pending line
				t.Fatal(err)
			}
			must.Get(f.CheckAll(ctx))(t)
			must.Do(t, f.DB.Update(ctx, func(tx kv.Txn) error { return c.damage(t, f, tx) }))
			_, err := f.CheckAll(ctx)
			if !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("CheckAll() = %v, want ErrCorrupt that says %q", err, c.want)
			}
			if _, err := check(bytes.NewReader(backUp(t, f))); !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("Check(a backup of it) = %v, want ErrCorrupt", err)
			}
		})
	}
	t.Run("a_store_in_the_middle_of_erasing_an_account_is_whole", func(t *testing.T) {
		t.Parallel()
		for failAt := range 6 {
			f := furnished(t)
			f.CutAt(failAt, true)
			_ = f.DeleteAccount(ctx, "acct_other")
			f.Faults.Repair()
			if _, err := f.CheckAll(ctx); err != nil {
				t.Errorf("cut at %d: CheckAll() = %v, want nil", failAt, err)
			}
		}
	})
	t.Run("any_history_of_tokens_leaves_a_whole_store", func(t *testing.T) {
		t.Parallel()
		f := storetest.NewKeeping(t)
		f.User(t, modelUser, "acct_larkspur")
		a, _ := f.Client(t)
		b, _ := f.Client(t)
		rapid.Check(t, func(t *rapid.T) {
			h := &history{f: f, clients: []store.Client{a, b}}
			t.Repeat(h.actions())
			must.Get(f.CheckAll(ctx))(t)
		})
	})
}

// forgetful is an engine that returns other records than it was given.
type forgetful struct {
	kv.DB
	change func([]kv.Record) []kv.Record
}

func (f forgetful) Load(ctx context.Context, records iter.Seq2[kv.Record, error]) error {
	return f.DB.(kv.Loader).Load(ctx, records)
}

func (f forgetful) Snapshot(ctx context.Context, fn func([]kv.Record) error) error {
	return f.DB.(kv.Snapshotter).Snapshot(ctx, func(page []kv.Record) error { return fn(f.change(slices.Clone(page))) })
}

// TestLoadComparesWhatWasStored: a restore reads back what the engine stored and
// compares it record by record, in any order.
func TestLoadComparesWhatWasStored(t *testing.T) {
	t.Parallel()
	file := backUp(t, furnished(t))
	for name, c := range map[string]struct {
		change func([]kv.Record) []kv.Record
		same   bool
	}{
		"nothing_changed":  {func(page []kv.Record) []kv.Record { return page }, true},
		"in_another_order": {func(page []kv.Record) []kv.Record { slices.Reverse(page); return page }, true},
		"one_lost":         {func(page []kv.Record) []kv.Record { return page[1:] }, false},
		"one_twice":        {func(page []kv.Record) []kv.Record { return append(page, page[0]) }, false},
		"two_swapped": {func(page []kv.Record) []kv.Record {
			other := slices.IndexFunc(page, func(r kv.Record) bool { return len(r.Value) != len(page[0].Value) })
			page[0].Value, page[other].Value = page[other].Value, page[0].Value
			return page
		}, false},
		"one_replaced_by_another": {func(page []kv.Record) []kv.Record { page[0] = page[1]; return page }, false},
		"another_expiry":          {func(page []kv.Record) []kv.Record { page[0].ExpiresAt = 1 << 40; return page }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := store.OpenBackup(bytes.NewReader(file))
			must.Do(t, err)
			defer b.Close()
			_, err = b.Load(context.Background(), forgetful{storetest.EmptyInMemory(), c.change}, time.Now())
			if c.same && err != nil || !c.same && !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("Load() = %v, want it to be the same: %v", err, c.same)
			}
		})
	}
}

// A sweep that stops half-way must not leave a record without its index entries, so they
// expire in one second, however often the record was written since.
func TestIndexEntriesExpireWithTheirRecord(t *testing.T) {
	g := parallelGrant(t)
	ctx := t.Context()
	session := g.signIn(t, secret.Token{})
	code := g.allow(t, challenge)
	g.Clock.Advance(10*time.Minute + tick)
	g.see(t, session)
	g.use(t, g.first)
	pair := g.mustRefresh(t, g.first)
	g.allow(t, challenge)
	_, err := g.redeem(code, verifier)
	refused(t, "RedeemCode()", err, record.ErrExpired)
	must.Get(g.redeem(g.allow(t, challenge), verifier))(t)
	g.Clock.Advance(lives.RefreshGrace + tick)
	g.use(t, pair)
	_, err = g.refresh(g.first) // revokes the family
	refused(t, "RotateRefresh()", err, record.ErrReplayed)
	g.Rest()

	ends := map[string]int64{}
	must.Do(t, g.Faults.Snapshot(ctx, func(page []kv.Record) error {
		for _, r := range page {
			ends[string(r.Key)] = r.ExpiresAt
		}
		return nil
	}))
	found := map[byte]int{}
	for key, end := range ends {
		of, size := "", len(secret.Hash{})
		switch key[0] {
		case record.TagUserSession:
			of = string(record.TagSession)
		case record.TagUserCode:
			of = string(record.TagCode)
		case record.TagClientFamily, record.TagUserFamily:
			of, size = string(record.TagFamily), len(secret.ID{})
		default:
			continue
		}
		found[key[0]]++
		if want := ends[of+key[len(key)-size:]]; end != want || want == 0 {
			t.Errorf("an index entry of the kind %q expires at %d, and its record at %d", key[0], end, want)
		}
		if key > of {
			t.Errorf("the kind %q sorts after %q, that of its record", key[0], of)
		}
	}
	if len(found) != 4 {
		t.Errorf("index entries of %v were found, want those of 4 kinds", found)
	}
}
