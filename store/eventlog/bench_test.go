package eventlog_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// The benchmarks of events, each alternating with its floor: the engine's own scan of
// as many rows of one range, copied. Ratios hold within one run of
//
//	go test -run '^$' -bench 'Page|Import' ./store/eventlog
//
// over 10,000 events; with TOLLHOUSE_LONG=1 also over a million, and with
// TOLLHOUSE_LONG=10000000 over ten million.

const (
	benchPage   = 100
	benchFirst  = 1_770_000_000 // the second of the first event
	benchSecond = 3             // events
)

// benchTypes are the types of the events, equally frequent.
var benchTypes = func() (types []string) {
	for _, kind := range []string{"customer", "account", "transaction", "invoice", "recurring", "batch", "deposit", "token"} {
		for _, action := range []string{"created", "updated", "settled", "paid", "sent", "closed"} {
			types = append(types, kind+"."+action)
		}
	}
	return types
}()

// benchLine is an event of about 790 bytes.
func benchLine(i int) string {
	return fmt.Sprintf(`{"owner":"acct_bench","resource":"cus_%07d","source":"harriet.voss","location":"dashboard","type":%q,"eventData":{"object":{"id":"cus_%07d","object":%q,"customerRef":"LTR-%07d","displayName":"Larkspur Tea Room","company":"Larkspur Tea Room","firstName":"Odile","lastName":"Marchbanks","displayAs":"contact","address1":"18 Quarry Lane","address2":"","city":"Dunmere","state":"VT","zip":"05091","country":"US","phone":"8025550143","phoneExt":"","email":"odile@larkspurtea.example","dateAdded":"2026-03-09","notes":"asked to be reminded by telephone, never by letter, before each invoice","active":"1"},"previousAttributes":{"address1":"4 Mill Street","phone":"8025550107"}},"createdAt":%d}`,
		i%5000, benchTypes[i%len(benchTypes)], i%5000, kindOf(benchTypes[i%len(benchTypes)]), i, benchFirst+i/benchSecond)
}

func kindOf(typ string) string {
	for i := range typ {
		if typ[i] == '.' {
			return typ[:i]
		}
	}
	return typ
}

// loaded returns a store on disk with n events, and the time per event.
func loaded(b *testing.B, n int) (*storetest.Fixture, time.Duration) {
	b.Helper()
	f := storetest.OnDisk(b)
	ctx := context.Background()
	started := time.Now()
	im := must.Get(f.Events.NewImporter("acct_bench", eventlog.ImportOptions{}))(b)
	for i := range n {
		if refused, err := im.Add(ctx, []byte(benchLine(i)), 0); err != nil || len(refused) > 0 {
			b.Fatal(refused, err)
		}
	}
	if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
		b.Fatal(refused, err)
	}
	return f, time.Since(started) / time.Duration(n)
}

func benchSizes() []int {
	sizes := []int{10_000}
	if !must.Long() {
		return sizes
	}
	sizes = append(sizes, 1_000_000)
	if most, err := strconv.Atoi(os.Getenv("TOLLHOUSE_LONG")); err == nil && most > sizes[1] {
		sizes = append(sizes, most)
	}
	return sizes
}

// BenchmarkPage reads pages of 100 by time and by one, three and twenty types of 48:
// the newest, and those before any second. It also compares several types with one.
func BenchmarkPage(b *testing.B) {
	for _, n := range benchSizes() {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			f, each := loaded(b, n)
			b.Logf("import of %d events, all synced: %.0f events/s", n, 1/each.Seconds())
			for _, where := range []string{"newest", "random"} {
				b.Run(where, func(b *testing.B) { pagesOf(b, f, where, n) })
			}
			b.Run("retrieve", func(b *testing.B) { retrieve(b, f) })
		})
	}
}

func pagesOf(b *testing.B, f *storetest.Fixture, where string, n int) {
	read := func(types ...string) storetest.Work { return pages(b, f, bounds(where, n), types) }
	byTime, one, three, twenty := read(), read(benchTypes[0]), read(benchTypes[1:4]...), read(benchTypes[5:25]...)
	scanTime := scans(b, f, bounds(where, n), "")
	scanType := scans(b, f, bounds(where, n), benchTypes[0])
	for _, pair := range []struct {
		a, b        string
		ours, floor storetest.Work
	}{
		{"by_time", "scan", byTime, scanTime},
		{"by_type", "scan", one, scanType},
		{"by_three_types", "scan", three, scanType},
		{"by_twenty_types", "scan", twenty, scanType},
		{"by_three_types", "one", three, one},
		{"by_twenty_types", "one", twenty, one},
	} {
		b.Run(pair.a+"_beside_"+pair.b, func(b *testing.B) {
			var p storetest.Pairs
			for b.Loop() {
				p.Take(pair.ours, pair.floor)
			}
			p.Report(b, "pages", pair.b)
		})
	}
}

// pagesTimed is how many pages one piece of work reads.
const pagesTimed = 20

// bounds returns the seconds before which pages are read: always the last, or any in the
// newest third, so that a page of each type comes before it.
func bounds(where string, n int) func() int64 {
	last := int64(benchFirst + n/benchSecond)
	if where == "newest" {
		return func() int64 { return last }
	}
	random := rand.New(rand.NewPCG(1, 2))
	return func() int64 { return last - random.Int64N(int64(n/benchSecond/3)) }
}

func pages(b *testing.B, f *storetest.Fixture, before func() int64, types []string) storetest.Work {
	ctx := context.Background()
	buffer := make([]byte, 0, 256<<10)
	return storetest.Timed(func() {
		for range pagesTimed {
			page, err := f.Events.ListEvents(ctx, "acct_bench", eventlog.Filter{To: before(), Types: types, Limit: benchPage}, buffer[:0])
			if err != nil || page.Count != benchPage {
				b.Fatal(page.Count, err)
			}
		}
	})
}

// scans has the engine scan as many rows of a list, copied to a buffer.
func scans(b *testing.B, f *storetest.Fixture, before func() int64, typ string) storetest.Work {
	var segments []uint64
	must.Do(b, f.DB.View(context.Background(), func(rd kv.Reader) (err error) {
		segments, err = eventlog.SegmentsOf(rd, "acct_bench")
		return err
	}))
	buffer := make([]byte, 0, 256<<10)
	return storetest.Timed(func() {
		for range pagesTimed {
			rows := 0
			buffer = buffer[:0]
			end := uint64(before()+1) * 1000
			err := f.DB.View(context.Background(), func(rd kv.Reader) error {
				for i := len(segments) - 1; i >= 0 && rows < benchPage; i-- {
					if segments[i] > end {
						continue
					}
					prefix := eventlog.ListIn(segments[i], "acct_bench", typ)
					r := kv.Range{Lo: prefix, Hi: binary.BigEndian.AppendUint64(bytes.Clone(prefix), end<<16), Reverse: true, Limit: benchPage - rows}
					for _, v := range rd.Scan(r) {
						buffer = append(buffer, v...)
						rows++
					}
				}
				return nil
			})
			if err != nil || rows != benchPage {
				b.Fatal(rows, err)
			}
		}
	})
}

func retrieve(b *testing.B, f *storetest.Fixture) {
	ctx := context.Background()
	page := must.Get(f.Events.ListEvents(ctx, "acct_bench", eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1000}, nil))(b)
	ids := idsIn(page.Data)
	buffer := make([]byte, 0, 4<<10)
	i := 0
	for b.Loop() {
		must.Get(f.Events.FindEvent(ctx, "acct_bench", ids[i%len(ids)], buffer[:0]))(b)
		i++
	}
}

// importTimed is how many events one piece of work imports.
const importTimed = 1000

// BenchmarkImport imports events in batches, each synced, alternating with Updates of
// the engine that write each event and its covering copy only. Module bench compares
// imports with Badger itself, without our committer.
func BenchmarkImport(b *testing.B) {
	f, bare := storetest.OnDisk(b), storetest.OnDisk(b)
	ctx := context.Background()
	im := must.Get(f.Events.NewImporter("acct_bench", eventlog.ImportOptions{}))(b)
	ours, floor := 0, 0
	imported := func() time.Duration {
		lines := benchLines(&ours)
		began := time.Now()
		for _, line := range lines {
			if refused, err := im.Add(ctx, line, 0); err != nil || len(refused) > 0 {
				b.Fatal(refused, err)
			}
		}
		if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
			b.Fatal(refused, err)
		}
		return time.Since(began)
	}
	written := func() time.Duration {
		updates := bareUpdates(floor, benchLines(&floor))
		began := time.Now()
		must.Do(b, errors.Join(kv.UpdateEach(ctx, bare.DB, updates)...))
		return time.Since(began)
	}
	var p storetest.Pairs
	for b.Loop() {
		p.Take(imported, written)
	}
	p.Report(b, "import", "floor")
	var took time.Duration
	for _, t := range p.A {
		took += t
	}
	b.ReportMetric(importTimed*float64(len(p.A))/took.Seconds(), "events/s")
}

// benchLines returns n lines from the next one on.
func benchLines(next *int) (lines [][]byte) {
	for range importTimed {
		lines = append(lines, []byte(benchLine(*next)))
		*next++
	}
	return lines
}

// bareUpdates write lines from that number on, and nothing else.
func bareUpdates(number int, lines [][]byte) (updates []func(kv.Txn) error) {
	const lineWrites = 2
	for chunk := range slices.Chunk(lines, kv.UpdateWritesMax/lineWrites/2) {
		first := number
		number += len(chunk)
		updates = append(updates, func(tx kv.Txn) error {
			for i, line := range chunk {
				position := binary.BigEndian.AppendUint64(make([]byte, 8), uint64(first+i))
				typ := benchTypes[(first+i)%len(benchTypes)]
				for _, prefix := range [][]byte{eventlog.ListIn(0, "acct_bench", ""), eventlog.ListIn(0, "acct_bench", typ)} {
					if err := tx.Set(append(prefix, position...), line, time.Time{}); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	return updates
}
