package eventlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// A page of types that come in clusters is whole, although it begins by reading the log
// and finds others there.
func TestPageOfTypesInClusters(t *testing.T) {
	t.Parallel()
	const clustered, others, among = 300, 700, 100 // each hundredth of the others is wanted too
	for name, c := range map[string]struct {
		ascending bool
		isWanted  func(i int) bool
	}{
		"newest_first": {false, func(i int) bool { return i < clustered || i%among == 0 }},
		"oldest_first": {true, func(i int) bool { return i >= others || i%among == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := openTest(t)
			ImportEvery(t, l, clustered+others, 1, func(i int) string {
				if c.isWanted(i) {
					return fmt.Sprint("customer.action_", i%5)
				}
				return "plan.updated"
			})
			seen := map[string]bool{}
			filter := Filter{Types: []string{"customer.*"}, To: CreatedAtMax, Limit: 40, Ascending: c.ascending, Row: func(dst []byte, p record.Position, wire []byte) []byte {
				if seen[p.String()] || !strings.Contains(string(wire), `"type":"customer.`) {
					t.Errorf("%s is listed twice, or is of another type", p)
				}
				seen[p.String()] = true
				return dst
			}}
			for {
				page := must.Get(l.ListEvents(t.Context(), "a", filter, nil))(t)
				filter.After = CursorAt(page.Next)
				if !page.More {
					break
				}
			}
			if want := clustered + others/among; len(seen) != want {
				t.Errorf("%d events are listed, want %d", len(seen), want)
			}
		})
	}
}

// The types that are kept in memory are those of a bounded number of accounts.
func TestKeptTypesAreBounded(t *testing.T) {
	t.Parallel()
	l := openTest(t)
	filter := Filter{Types: []string{"plan.*"}, To: CreatedAtMax, Limit: 5}
	for i := range recentAccountsMax + 5 {
		owner := fmt.Sprint("acct_", i)
		must.Get(l.RecordEvent(t.Context(), NewEvent{Owner: owner, Type: "plan.created", Resource: "p1", Object: snapshot.ObjectOf()}))(t)
		if page := must.Get(l.ListEvents(t.Context(), owner, filter, nil))(t); page.Count != 1 {
			t.Errorf("%s: %d events are listed, want its own", owner, page.Count)
		}
	}
	if n := len(l.types.kept); n != recentAccountsMax {
		t.Errorf("the types of %d accounts are kept, want %d", n, recentAccountsMax)
	}
}

// gatedDB holds its first Update until the gate opens.
type gatedDB struct {
	kv.DB
	gate <-chan struct{}
}

func (db gatedDB) Update(ctx context.Context, fn func(kv.Txn) error) error {
	<-db.gate
	return db.DB.Update(ctx, fn)
}

// An import that stops at a line records nothing behind it, not even of full batches that
// wait for the same commit.
func TestImportStopsBehindARefusedLine(t *testing.T) {
	t.Parallel()
	l := openTest(t)
	line := func(i int, typ string) []byte {
		return fmt.Appendf(nil, `{"id":"e-%d","type":%q,"resource":"r%d","eventData":{"object":{}},"createdAt":%d}`, i, typ, i, l.now().Unix()-5000+int64(i))
	}
	const (
		lines = 1000
		taken = 250 // in the second batch
		full  = 650 // lines fill three batches
	)
	first := must.Get(l.NewImporter("a", ImportOptions{}))(t)
	must.Get(first.Add(t.Context(), line(taken, "plan.created"), 0))(t)
	must.Get(first.Flush(t.Context()))(t)
	gate, db := make(chan struct{}), l.db
	l.db = gatedDB{db, gate}
	im := must.Get(l.NewImporter("a", ImportOptions{}))(t)
	var refused []LineError
	for i := range lines {
		refused = append(refused, must.Get(im.Add(t.Context(), line(i, "plan.updated"), 0))(t)...)
		if i == full {
			close(gate)
		}
	}
	refused = append(refused, must.Get(im.Flush(t.Context()))(t)...)
	if len(refused) != 1 || refused[0].Line != taken+1 || refused[0].Code != "id_conflict" || !im.Stopped() {
		t.Errorf("refused are %+v, and the import has stopped: %t; want line %d alone", refused, im.Stopped(), taken+1)
	}
	if found := must.Get(l.CheckEvents(t.Context(), "a"))(t); found != taken+1 || im.Summary().Recorded != taken {
		t.Errorf("the log has %d events and the import says %+v, want the %d before the refused one", found, im.Summary(), taken)
	}
	if more := must.Get(im.Refuse(t.Context(), 0))(t); more != nil {
		t.Errorf("an import that has stopped judges further lines: %+v", more)
	}
}

// Records that the engine holds to be sound, and that no release writes, are damage to
// every reader.
func TestSoundRecordsOfNoEvent(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	change := ResourceChange{Owner: "a", Kind: "plan", ID: "p1", Source: "test", Location: "api"}
	list := func(types, resources []string) func(*Log) error {
		return func(l *Log) error {
			_, err := l.ListEvents(ctx, "a", Filter{Types: types, Resources: resources, To: CreatedAtMax, Limit: 9}, nil)
			return err
		}
	}
	readers := map[string]func(*Log) error{
		"ListEvents_of_a_resource": list([]string{"plan.created"}, []string{"p1"}),
		"Follow":                   func(l *Log) error { _, err := l.Follow(ctx, "a", []string{"plan.*"}, record.Position{}, 9); return err },
		"Follow_of_all":            func(l *Log) error { _, err := l.Follow(ctx, "a", []string{"*"}, record.Position{}, 9); return err },
	}
	for name, damage := range map[string]func(tx kv.Txn, key, value []byte) error{
		"an_event_without_a_type": func(tx kv.Txn, key, value []byte) error {
			return tx.Set(key, []byte(strings.Replace(string(value), `,"type":"plan.created"`, "", 1)), time.Time{})
		},
		"an_event_whose_texts_have_no_end": func(tx kv.Txn, key, _ []byte) error {
			return tx.Set(key, append([]byte{eventRecord}, `{"id":"x},"createdAt":1}`...), time.Time{})
		},
	} {
		for reader, read := range readers {
			l := openTest(t)
			must.Get(l.PutResource(ctx, change, document(t, `{"n":1}`)))(t)
			must.Do(t, l.db.Update(ctx, func(tx kv.Txn) error {
				for k, v := range tx.Scan(eventsOf("a").in(0).All()) {
					return damage(tx, slices.Clone(k), v)
				}
				return errors.New("no event")
			}))
			if err := read(l); !errors.Is(err, kv.ErrCorrupt) {
				t.Errorf("%s of %s = %v, want ErrCorrupt", reader, name, err)
			}
		}
	}
	l := openTest(t)
	must.Get(l.PutResource(ctx, change, document(t, `{"n":1}`)))(t)
	must.Do(t, l.db.Update(ctx, func(tx kv.Txn) error {
		r := must.Get(readResource(tx, "a", "plan", "p1"))(t)
		r.json = []byte(`{"n"}`)
		for k := range tx.Scan(eventsOf("a").in(0).All()) {
			return errors.Join(writeResource(tx, "a", "plan", "p1", r), tx.Delete(slices.Clone(k)))
		}
		return errors.New("no event")
	}))
	if _, err := l.PatchResource(ctx, change, document(t, `{"n":2}`)); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("PatchResource() over a damaged resource = %v, want ErrCorrupt", err)
	}
	if err := list(nil, []string{"p1"})(l); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("ListEvents() of a resource whose event is missing = %v, want ErrCorrupt", err)
	}
}

func TestCardGuardModes(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{"refuse": true, "warn": true, "off": true, "": false, "REFUSE": false, "on": false} {
		mode, err := ParseCardGuard(text)
		invalid, is := errors.AsType[*record.InvalidError](err)
		if is == valid || valid && string(mode) != text || is && (mode != "" || invalid.Hint == "") {
			t.Errorf("ParseCardGuard(%q) = %q, %v", text, mode, err)
		}
	}
}
