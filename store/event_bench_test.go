package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/storetest"
)

// The benchmarks of events, each beside its floor: the engine's own scan of the
// same keys, copied out. Figures are ratios within one run, by
//
//	go test -run xxx -bench 'Page|Retrieve|Import' ./store
//
// over 10,000 events, and with TOLLHOUSE_LONG over a million too.

const benchPage = 100

// benchTypes are the types of the events, of which pages by type take one.
var benchTypes = []string{"customer.created", "customer.updated", "transaction.settled", "transaction.captured", "account.autoupdate", "invoice.paid", "invoice.sent", "transaction.authorized"}

// benchLine is an event of about 790 bytes.
func benchLine(i int) string {
	return fmt.Sprintf(`{"owner":"acct_bench","resource":"cus_%07d","source":"harriet.voss","location":"dashboard","type":%q,"eventData":{"object":{"id":"cus_%07d","object":%q,"customerRef":"LTR-%07d","displayName":"Larkspur Tea Room","company":"Larkspur Tea Room","firstName":"Odile","lastName":"Marchbanks","displayAs":"contact","address1":"18 Quarry Lane","address2":"","city":"Dunmere","state":"VT","zip":"05091","country":"US","phone":"8025550143","phoneExt":"","email":"odile@larkspurtea.example","dateAdded":"2026-03-09","notes":"asked to be reminded by telephone, never by letter, before each invoice","active":"1"},"previousAttributes":{"address1":"4 Mill Street","phone":"8025550107"}},"createdAt":%d}`,
		i%5000, benchTypes[i%len(benchTypes)], i%5000, kindOf(benchTypes[i%len(benchTypes)]), i, 1770000000+i/3)
}

func kindOf(typ string) string {
	for i := range typ {
		if typ[i] == '.' {
			return typ[:i]
		}
	}
	return typ
}

// loaded returns a store on disk with n events, and how long one took.
func loaded(b *testing.B, n int) (*storetest.Fixture, time.Duration) {
	b.Helper()
	f := storetest.OnDisk(b)
	ctx := context.Background()
	started := time.Now()
	im, err := f.NewImporter("acct_bench", store.ImportOptions{})
	if err != nil {
		b.Fatal(err)
	}
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
	if long() {
		return []int{10_000, 1_000_000}
	}
	return []int{10_000}
}

func BenchmarkPage(b *testing.B) {
	for _, n := range benchSizes() {
		b.Run(fmt.Sprintf("events=%d", n), func(b *testing.B) {
			f, each := loaded(b, n)
			b.Logf("import of %d events, all synced: %.0f events/s", n, 1/each.Seconds())
			all := store.EventFilter{To: store.CreatedAtMax, Limit: benchPage}
			ranged := all
			ranged.From, ranged.To = 1770000000+int64(n)/12, 1770000000+int64(n)/4
			byType, three := ranged, ranged
			byType.Types, three.Types = benchTypes[:1], benchTypes[1:4]
			floorTime := scanFloor(b, f, "e\x00", ranged)
			floorType := scanFloor(b, f, "y"+benchTypes[0]+"\x00", ranged)
			b.Run("ByTime", func(b *testing.B) { pages(b, f, ranged, floorTime) })
			b.Run("ByType", func(b *testing.B) { pages(b, f, byType, floorType) })
			b.Run("ByThreeTypes", func(b *testing.B) { pages(b, f, three, floorType) })
			b.Run("Newest", func(b *testing.B) { pages(b, f, all, floorTime) })
			b.Run("Retrieve", func(b *testing.B) { retrieve(b, f) })
		})
	}
}

func pages(b *testing.B, f *storetest.Fixture, filter store.EventFilter, floor time.Duration) {
	ctx := context.Background()
	buffer := make([]byte, 0, 256<<10)
	for b.Loop() {
		page, err := f.ListEvents(ctx, "acct_bench", filter, buffer[:0])
		if err != nil || page.Count != benchPage {
			b.Fatal(page.Count, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(floor), "×scan")
}

// scanFloor times the engine's scan of the same rows, copied to a buffer.
func scanFloor(b *testing.B, f *storetest.Fixture, tag string, filter store.EventFilter) time.Duration {
	b.Helper()
	prefix := append([]byte(tag[:1]), "acct_bench\x00"...)
	if len(tag) > 2 {
		prefix = append(prefix, tag[1:]...)
	}
	bound := func(seconds int64) []byte {
		millis := uint64(seconds) * 1000
		return append(append([]byte(nil), prefix...), byte(millis>>40), byte(millis>>32), byte(millis>>24), byte(millis>>16), byte(millis>>8), byte(millis))
	}
	r := kv.Range{Lo: bound(filter.From), Hi: bound(filter.To + 1), Reverse: true, Limit: benchPage}
	buffer := make([]byte, 0, 256<<10)
	scan := func() {
		rows := 0
		buffer = buffer[:0]
		err := f.DB.View(context.Background(), func(rd kv.Reader) error {
			for _, v := range rd.Scan(r) {
				buffer = append(buffer, v...)
				rows++
			}
			return nil
		})
		if err != nil || rows != benchPage {
			b.Fatal(rows, err)
		}
	}
	scan()
	const rounds = 2000
	started := time.Now()
	for range rounds {
		scan()
	}
	floor := time.Since(started) / rounds
	b.Logf("floor %q: %v a page", tag, floor)
	return floor
}

func retrieve(b *testing.B, f *storetest.Fixture) {
	ctx := context.Background()
	page, err := f.ListEvents(ctx, "acct_bench", store.EventFilter{To: store.CreatedAtMax, Limit: 1000}, nil)
	if err != nil {
		b.Fatal(err)
	}
	ids := idsIn(page.Data)
	buffer := make([]byte, 0, 4<<10)
	i := 0
	for b.Loop() {
		if _, err := f.FindEvent(ctx, "acct_bench", ids[i%len(ids)], buffer[:0]); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkImport records events in batches, each synced.
func BenchmarkImport(b *testing.B) {
	f := storetest.OnDisk(b)
	im, err := f.NewImporter("acct_bench", store.ImportOptions{})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	i := 0
	for b.Loop() {
		if refused, err := im.Add(ctx, []byte(benchLine(i)), 0); err != nil || len(refused) > 0 {
			b.Fatal(refused, err)
		}
		i++
	}
	if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
		b.Fatal(refused, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
