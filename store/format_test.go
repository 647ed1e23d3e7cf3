package store_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

var makeFixture = flag.Bool("make-format1", false, "write the fixture of format 1 in testdata anew")

// formatFacts are the parts of a format 1 backup that vary.
type formatFacts struct {
	Client  string   `json:"client_id"`
	Secret  string   `json:"client_secret"`
	Session string   `json:"session"`
	Access  string   `json:"access_token"`
	Refresh string   `json:"refresh_token"`
	Code    string   `json:"code"`
	Events  []string `json:"events"`
}

// makeFormat1 writes a small backup with a record of every kind but a certificate,
// and its facts.
func makeFormat1(t *testing.T, path string) {
	ctx := context.Background()
	f := storetest.New(t)
	client, clientSecret := f.Client(t)
	g := grant{Fixture: f, client: client, user: f.User(t, "mara", "acct_larkspur")}
	pair := g.mustRefresh(t, g.issue(t, store.ScopeUnstated))
	session, _, err := f.CreateSession(ctx, store.By{}, g.user, secret.Token{}, "")
	must.Do(t, err)
	code := must.Get(f.Allow(ctx, store.Consent{Client: client, User: g.user, RedirectURI: storetest.CallbackURI,
		Ticket: "ticket", TicketEnds: f.Now().Add(time.Hour)}))(t)
	var lines []string
	for i := range 9 { // two segments in tests
		lines = append(lines, fmt.Sprintf(`{"id":"foreign-%d","type":"plan.%s","resource":"p%d","eventData":{"object":{"name":"Plan"}},"createdAt":%d}`,
			i, []string{"created", "updated"}[i%2], i/4, f.Now().Unix()-100+int64(i)))
	}
	storetest.ImportLines(t, f.Store, "acct_larkspur", lines...)
	f.Audit(store.AuditLine{What: store.AuditAdmin, Reason: "the fixture was made"})
	facts := formatFacts{Client: client.ID, Secret: clientSecret.Reveal(), Session: session.Reveal(), Access: pair.AccessToken.Reveal(),
		Refresh: pair.RefreshToken.Reveal(), Code: code.Reveal(), Events: eventsOf(t, f.Store)}
	text, err := json.MarshalIndent(facts, "", "  ")
	if err == nil {
		err = errors.Join(os.WriteFile(path+".backup", backUp(t, f), 0o644), os.WriteFile(path+".json", append(text, '\n'), 0o644))
	}
	must.Do(t, err)
}

// eventsOf returns the events of the fixture's account, oldest first.
func eventsOf(t *testing.T, s *store.Store) (events []string) {
	t.Helper()
	page, err := s.Events.ListEvents(context.Background(), "acct_larkspur", eventlog.Filter{To: eventlog.CreatedAtMax, Ascending: true, Limit: 100}, nil)
	var rows []json.RawMessage
	if err == nil {
		err = json.Unmarshal([]byte("["+strings.TrimSuffix(string(page.Data), ",")+"]"), &rows)
	}
	must.Do(t, err)
	for _, row := range rows {
		events = append(events, string(row))
	}
	return events
}

// TestFormat1 reads a backup made when format 1 was settled. The first release that
// changes the format keeps this test, to show that it still reads older backups. To
// make the file again, while no release has written the format:
//
//	go test ./store -run TestFormat1 -make-format1
func TestFormat1(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	path := filepath.Join("testdata", "format1")
	if *makeFixture {
		makeFormat1(t, path)
	}
	file := must.Get(os.ReadFile(path + ".backup"))(t)
	var facts formatFacts
	text, err := os.ReadFile(path + ".json")
	if err == nil {
		err = json.Unmarshal(text, &facts)
	}
	must.Do(t, err)
	b := must.Get(store.OpenBackup(bytes.NewReader(file)))(t)
	defer b.Close()
	db := storetest.EmptyInMemory()
	if _, err := b.Load(ctx, db, b.Created); err != nil || b.Schema != 1 {
		t.Fatalf("Load(format %d) = %v, want format 1", b.Schema, err)
	}
	clock := storetest.NewClock()
	clock.Advance(b.Created.Sub(clock.Now()))
	f := storetest.Open(t, db, clock)
	if _, err := f.CheckAll(ctx); err != nil {
		t.Errorf("CheckAll() = %v", err)
	}
	if got := eventsOf(t, f.Store); !equal(got, facts.Events) || len(got) != 9 {
		t.Errorf("the events are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(facts.Events, "\n"))
	}
	token := func(kind secret.Kind, text string) secret.Token {
		parsed, ok := secret.Parse(kind, text)
		if !ok {
			t.Fatalf("%q is no token", text)
		}
		return parsed
	}
	if u, err := f.AuthenticateUser(ctx, secret.Caller{}, "mara", storetest.Password); err != nil || u.Account != "acct_larkspur" {
		t.Errorf("AuthenticateUser() = %+v, %v", u, err)
	}
	if _, err := f.FindSession(ctx, token(secret.SessionToken, facts.Session)); err != nil {
		t.Errorf("FindSession() = %v", err)
	}
	if p, err := f.FindPrincipal(ctx, token(secret.AccessToken, facts.Access)); err != nil || p.Account != "acct_larkspur" {
		t.Errorf("FindPrincipal() = %+v, %v", p, err)
	}
	client := must.Get(f.AuthenticateClient(ctx, facts.Client, facts.Secret, nil))(t)
	if _, err := f.RotateRefresh(ctx, store.Refresh{Client: client, Token: token(secret.RefreshToken, facts.Refresh)}); err != nil {
		t.Errorf("RotateRefresh() = %v", err)
	}
	if _, err := f.RedeemCode(ctx, store.Redemption{Client: client, Code: token(secret.Code, facts.Code), RedirectURI: storetest.CallbackURI}); err != nil {
		t.Errorf("RedeemCode() = %v", err)
	}
}

// TestAnotherFormat: a store of another format is refused and left unchanged, and so
// is a backup of one.
//
// Promise (Backup): a store or a backup of another format is refused, naming both formats, and left
// as it was
func TestAnotherFormat(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	refused := func(t *testing.T, format uint64, err error) {
		t.Helper()
		var named *store.FormatError
		if !errors.As(err, &named) || named.Found != format || !strings.Contains(err.Error(), fmt.Sprintf("the unknown format %d; this tollhouse reads format 1", format)) {
			t.Errorf("format %d: %v, want a FormatError that names both", format, err)
		}
	}
	// What was written before format 1 was settled has a record of the store in version 1.
	t.Run("before_format_1", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		must.Do(t, f.DB.Update(ctx, func(tx kv.Txn) error {
			meta := append([]byte{1, 1}, make([]byte, len(secret.ID{}))...)
			return tx.Set([]byte("mstore\x00"), meta, time.Time{})
		}))
		before := recordsOf(t, f.DB)
		_, err := store.Open(ctx, f.DB, store.Options{Now: f.Clock.Now, Lifetimes: store.DefaultLifetimes()})
		refused(t, 0, err)
		if !equal(recordsOf(t, f.DB), before) {
			t.Error("Open() has changed a store that it refused")
		}
	})
	for _, format := range []uint64{0, 2, 3, 99} {
		t.Run(fmt.Sprintf("format_%d", format), func(t *testing.T) {
			t.Parallel()
			f := storetest.New(t)
			f.User(t, "mara", "acct_larkspur")
			err := f.DB.Update(ctx, func(tx kv.Txn) error {
				meta, err := tx.Get([]byte("mstore\x00"))
				if err != nil {
					return err
				}
				meta = bytes.Clone(meta)
				meta[1] = byte(format)
				return tx.Set([]byte("mstore\x00"), meta, time.Time{})
			})
			must.Do(t, err)
			before := recordsOf(t, f.DB)
			_, err = store.Open(ctx, f.DB, store.Options{Now: f.Clock.Now, Lifetimes: store.DefaultLifetimes()})
			refused(t, format, err)
			if !equal(recordsOf(t, f.DB), before) {
				t.Error("Open() has changed a store that it refused")
			}
			var file bytes.Buffer
			must.Get(backup.NewWriter(&file, backup.Header{Schema: format}))(t)
			_, err = store.OpenBackup(&file)
			refused(t, format, err)
		})
	}
}

// TestANewerFormatNamesTheReleaseThatReadsIt: whatever a later format has behind the fields
// that this one knows.
//
// Promise (Backup): a store or a backup that a newer version wrote is refused with the number of the
// release that is needed
func TestANewerFormatNamesTheReleaseThatReadsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		format byte
		behind string // the instance
		want   string
	}{
		"a_newer_format":          {2, "\x061.12.0", "use tollhouse 1.12.0 or newer"},
		"a_candidate":             {2, "\x0a2.0.0-rc.1", "use tollhouse 2.0.0-rc.1 or newer"},
		"with_fields_of_its_own":  {3, "\x051.4.0\x01\x02\x03", "use tollhouse 1.4.0 or newer"},
		"without_a_number":        {2, "", "use the tollhouse that wrote it, or a later one"},
		"with_words_for_a_number": {2, "\x0a1.4.0\nhint", "use the tollhouse that wrote it, or a later one"},
		"an_older_format":         {0, "\x051.0.0", "use the tollhouse that wrote it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := storetest.New(t)
			must.Do(t, f.DB.Update(t.Context(), func(tx kv.Txn) error {
				meta := append(append([]byte{2, c.format}, make([]byte, len(secret.ID{}))...), c.behind...)
				return tx.Set([]byte("mstore\x00"), meta, time.Time{})
			}))
			_, err := store.Open(t.Context(), f.DB, store.Options{Now: f.Clock.Now, Lifetimes: store.DefaultLifetimes()})
			var refused *store.FormatError
			if !errors.As(err, &refused) || refused.Found != uint64(c.format) || refused.Hint() != c.want {
				t.Errorf("Open() = %v, want a FormatError with the hint %q", err, c.want)
			}
		})
	}
	t.Run("a_new_store_has_the_number_of_its_format", func(t *testing.T) {
		t.Parallel()
		var own []byte
		err := storetest.New(t).DB.View(t.Context(), func(r kv.Reader) (err error) {
			own, err = r.Get([]byte("mstore\x00"))
			own = bytes.Clone(own)
			return err
		})
		if err != nil || !bytes.HasSuffix(own, []byte("\x051.0.0")) {
			t.Errorf("the store's own record is %q, %v", own, err)
		}
	})
	t.Run("a_backup_names_what_wrote_it", func(t *testing.T) {
		t.Parallel()
		var file bytes.Buffer
		must.Get(backup.NewWriter(&file, backup.Header{Schema: 2, Version: "1.12.0"}))(t)
		_, err := store.OpenBackup(&file)
		var refused *store.FormatError
		if !errors.As(err, &refused) || refused.Hint() != "use tollhouse 1.12.0 or newer" {
			t.Errorf("OpenBackup() = %v", err)
		}
	})
}

// TestAStoreWithoutItsOwnRecord is damaged, and not new: it gets no other identity.
func TestAStoreWithoutItsOwnRecord(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	f.User(t, "mara", "acct_larkspur")
	must.Do(t, f.DB.Update(t.Context(), func(tx kv.Txn) error { return tx.Delete([]byte("mstore\x00")) }))
	before := recordsOf(t, f.DB)
	_, err := store.Open(t.Context(), f.DB, store.Options{Now: f.Clock.Now, Lifetimes: store.DefaultLifetimes()})
	if !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("Open() = %v, want ErrCorrupt", err)
	}
	if !equal(recordsOf(t, f.DB), before) {
		t.Error("Open() has changed a store that it refused")
	}
}
