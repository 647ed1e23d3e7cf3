package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// TestImportKeepsNoLines: what an import remembers of a line, such as its id in a dry
// run, does not keep the whole text in memory.
func TestImportKeepsNoLines(t *testing.T) {
	for name, form := range map[string]string{
		"recorded": `{"id":"ev-%d","type":"plan.created","resource":"p%[1]d","eventData":{"object":{}},"createdAt":1773000000%[2]s}`,
		"refused":  `{"m%d":1%[2]s}`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			im, err := storetest.New(t).Events.NewImporter("acct_a", eventlog.ImportOptions{DryRun: true, SkipErrors: true})
			must.Do(t, err)
			const lines, size = 900, 60 << 10 // fewer than a batch of refused ones
			space := strings.Repeat(" ", size)
			before := storetest.Heap()
			for i := range lines {
				if refused, err := im.Add(ctx, fmt.Appendf(nil, form, i, space), 0); err != nil || len(refused) > 0 {
					t.Fatal(refused, err)
				}
			}
			waiting := storetest.Heap() - before
			refused, err := im.Flush(ctx)
			if err != nil || len(refused)+im.Summary().Recorded != lines {
				t.Fatalf("Flush() = %d refused, %v, and %d recorded, want %d together", len(refused), err, im.Summary().Recorded, lines)
			}
			for i, fault := range refused {
				if want := fmt.Sprintf("m%d", i); fault.Line != i+1 || fault.Param != want || !strings.Contains(fault.Reason, want) {
					t.Errorf("line %d is refused as %+v, want its own member", i+1, fault)
				}
			}
			if held := storetest.Heap() - before; waiting > lines*size/8 || held > lines*size/8 {
				t.Errorf("of %d bytes of lines %d are held while they wait, and %d in the end", lines*size, waiting, held)
			}
			runtime.KeepAlive(im)
		})
	}
}

// TestImportsShareNoBytes runs several imports at once, which read lines into reused
// memory, beside updates that succeed, fail or panic, and refreshes of a token. Each
// event, in the log, under its type and as its resource, and each refusal must match
// its own line.
func TestImportsShareNoBytes(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	g := onDisk(t)
	ctx := t.Context()
	done := make(chan struct{})
	var beside, imports sync.WaitGroup
	until := func(step func(n int) error) {
		beside.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
				}
				if err := step(n); err != nil {
					t.Errorf("beside the imports, step %d: %v", n, err)
					return
				}
			}
		})
	}
	until(func(n int) error { // others read it while its group is open
		err := g.DB.Update(ctx, func(tx kv.Txn) error {
			for i := range 20 {
				if err := tx.Set(fmt.Appendf(nil, "~%d", i), bytes.Repeat([]byte{'!'}, 100*i), time.Time{}); err != nil {
					return err
				}
			}
			return errSpurious
		})
		if !errors.Is(err, errSpurious) {
			return fmt.Errorf("a refused update = %w", err)
		}
		return nil
	})
	until(func(n int) (err error) {
		defer func() {
			if recover() == nil {
				err = errors.New("no panic surfaced")
			}
		}()
		return g.DB.Update(ctx, func(tx kv.Txn) error {
			panic(tx.Set([]byte("~"), bytes.Repeat([]byte{'?'}, 9999), time.Time{}))
		})
	})
	until(func(n int) error {
		c := eventlog.ResourceChange{Owner: "acct_live", Kind: "plan", ID: "p1", Source: "s", Location: "l"}
		note := fmt.Sprintf("live %d %s", n, strings.Repeat("v", n%4000))
		changed, err := g.Events.PutResource(ctx, c, snapshot.ObjectOf(snapshot.Member{Name: "note", Value: snapshot.Text(note)}))
		if want := `{"id":"p1","object":"plan","note":"` + note + `"}`; err == nil && string(changed.JSON) != want {
			return fmt.Errorf("the resource is %s, want %s", changed.JSON, want)
		}
		return err
	})
	pair := g.issue(t, store.ScopeUnstated)
	until(func(n int) (err error) {
		if pair, err = g.refresh(pair); err == nil && !g.accessLives(t, pair) {
			return errors.New("the token of a refresh is dead")
		}
		return err
	})
	for _, account := range []string{"acct_a", "acct_b", "acct_c"} {
		imports.Go(func() {
			file := newSentFile(account)
			file.send(t, g.Store)
			file.check(t, g.Store)
		})
	}
	imports.Wait()
	close(done)
	beside.Wait()
	if n := g.Count(t, '~'); n != 0 {
		t.Errorf("%d records of updates that failed are there, want none", n)
	}
}

var errSpurious = errors.New("refused")

// sentFile is a file of lines and the expected results.
type sentFile struct {
	account   string
	lines     []string
	events    []string          // as on the wire, in their order
	resources map[string]string // what the last event about each says
	refused   map[int]string    // by the line, what its refusal names
}

func newSentFile(account string) *sentFile {
	f := &sentFile{account: account, resources: map[string]string{}, refused: map[int]string{}}
	random := rand.New(rand.NewPCG(uint64(account[5]), 0x5ab))
	for i := range 500 {
		name := fmt.Sprintf("%s-%d", account, i)
		note := name + strings.Repeat(account[5:], random.IntN([...]int{1, 200, 20_000}[min(2, random.IntN(12))]))
		id, of, typ, at := fmt.Sprintf("ev-%d", i), fmt.Sprintf("p%d", random.IntN(60)), "plan.created", 1_773_000_000+i
		object := fmt.Sprintf(`{"id":%q,"object":"plan","note":%q,"n":{"k":[%d,1E5,{"of":%q}]}}`, of, note, i, name)
		previous := ""
		if random.IntN(2) == 0 {
			typ, previous = "plan.updated", fmt.Sprintf(`,"previousAttributes":{"note":"before %s"}`, name)
		}
		sent := object
		switch random.IntN(4) {
		case 0:
			sent = strings.Replace(sent, fmt.Sprintf(`"id":%q,"object":"plan",`, of), ``, 1)
		case 1:
			sent = strings.NewReplacer(`,"n":{`, ` ,"\u006e": { `, `"note":"acct`, `"gone":null,"note":"\u0061cct`).Replace(sent)
		}
		more := ""
		switch random.IntN(25) {
		case 0:
			more, f.refused[i+1] = fmt.Sprintf(`,"m-%s":1`, name), "m-"+name
		case 1:
			sent, f.refused[i+1] = strings.Replace(sent, `"note"`, fmt.Sprintf(`"pan-%s":"4111 1111 1111 1111","note"`, name), 1), "pan-"+name
		case 2:
			sent, f.refused[i+1] = strings.Replace(sent, `"note":`, fmt.Sprintf(`"d-%s":1,"d-%[1]s":2,"note":`, name), 1), "d-"+name
		case 3:
			sent, f.refused[i+1] = strings.Replace(sent, `"note":`, `"more":"`+strings.Repeat("x", snapshot.SizeMax)+`","note":`, 1), "24576"
		}
		f.lines = append(f.lines, fmt.Sprintf(`{"id":%q,"type":%q,"resource":%q,"source":"by %s","eventData":{"object":%s%s},"createdAt":%d%s}`, id, typ, of, name, sent, previous, at, more))
		if f.refused[i+1] == "" {
			f.events = append(f.events, fmt.Sprintf(`{"id":%q,"owner":%q,"resource":%q,"source":"by %s","location":"import","type":%q,"eventData":{"object":%s%s},"createdAt":%d}`, id, account, of, name, typ, object, previous, at))
			f.resources[of] = object
		}
	}
	return f
}

// send imports the file, reading every line into the same memory.
func (f *sentFile) send(t *testing.T, s *store.Store) {
	im, err := s.Events.NewImporter(f.account, eventlog.ImportOptions{SkipErrors: true})
	if err != nil {
		t.Error(err)
		return
	}
	var faults, more []eventlog.LineError
	var line []byte
	for _, text := range f.lines {
		line = append(line[:0], text...)
		if more, err = im.Add(t.Context(), line, 0); err != nil {
			t.Error(err)
			return
		}
		faults = append(faults, more...)
		clear(line)
	}
	if more, err = im.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	faults = append(faults, more...)
	for _, fault := range faults {
		if name := f.refused[fault.Line]; name == "" || !strings.Contains(fault.Reason, name) {
			t.Errorf("%s: line %d is refused as %+v, want %q named", f.account, fault.Line, fault, name)
		}
	}
	if len(faults) != len(f.refused) || len(f.refused) < 40 || im.Summary().Recorded != len(f.events) {
		t.Errorf("%s: %d lines were refused and %+v, want %d and %d recorded", f.account, len(faults), im.Summary(), len(f.refused), len(f.events))
	}
}

func (f *sentFile) check(t *testing.T, s *store.Store) {
	var log []byte
	export := s.Events.NewExport(f.account)
	for n := 1; n > 0; {
		var err error
		if log, n, err = export.Next(t.Context(), 1000, log); err != nil {
			t.Error(err)
			return
		}
	}
	if want := strings.Join(f.events, "\n") + "\n"; string(log) != want {
		t.Errorf("%s: the log has %d bytes, want the %d that were sent; they differ from %d on", f.account, len(log), len(want), firstDifference(string(log), want))
	}
	for _, typ := range []string{"plan.created", "plan.updated"} {
		var want []string
		for _, wire := range f.events {
			if strings.Contains(wire, `"type":"`+typ+`"`) {
				want = append(want, wire)
			}
		}
		if got := f.ofType(t, s, typ); got != strings.Join(want, ",") {
			t.Errorf("%s: the events of %s are not those that were sent; they differ from byte %d on", f.account, typ, firstDifference(got, strings.Join(want, ",")))
		}
	}
	for id, want := range f.resources {
		if got, err := s.Events.FindResource(t.Context(), f.account, "plan", id); err != nil || string(got.JSON) != want {
			t.Errorf("%s: resource %s = %.300s, %v, want %.300s", f.account, id, got.JSON, err, want)
		}
	}
}

// ofType reads the list of one type to the end.
func (f *sentFile) ofType(t *testing.T, s *store.Store, typ string) string {
	filter := eventlog.Filter{Types: []string{typ}, To: eventlog.CreatedAtMax, Limit: 1000, Ascending: true}
	var pages []string
	for {
		page, err := s.Events.ListEvents(t.Context(), f.account, filter, nil)
		if err != nil {
			t.Error(err)
			return ""
		}
		pages = append(pages, string(page.Data))
		if !page.More {
			return strings.Join(pages, ",")
		}
		filter.After = eventlog.CursorAt(page.Next)
	}
}

func firstDifference(a, b string) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
