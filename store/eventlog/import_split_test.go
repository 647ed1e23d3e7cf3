package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
)

// twice runs every update two times and keeps only the second run, as an engine may.
type twice struct{ kv.DB }

var errFirstRun = errors.New("first run")

func (e twice) Update(ctx context.Context, fn func(kv.Txn) error) error {
	err := e.DB.Update(ctx, func(tx kv.Txn) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errFirstRun
	})
	if !errors.Is(err, errFirstRun) {
		return err
	}
	return e.DB.Update(ctx, fn)
}

// history draws lines in the order of time, several a second, some with ids of their own
// and some with native ones. No two have the same content.
func history(t *rapid.T) (lines []string) {
	n := rapid.IntRange(1, 400).Draw(t, "lines")
	ids := rapid.SampledFrom([]string{"none", "foreign", "mixed"}).Draw(t, "ids")
	perSecond := rapid.SampledFrom([]int{1, 3, 40, 500}).Draw(t, "a second")
	second, rank := int64(1_773_000_000), 0
	for i := range n {
		if rapid.IntRange(1, perSecond).Draw(t, "next") == 1 {
			second, rank = second+rapid.Int64Range(1, 3).Draw(t, "seconds"), 0
		}
		id := ids
		if ids == "mixed" {
			id = rapid.SampledFrom([]string{"none", "foreign", "native"}).Draw(t, "id")
		}
		member := ""
		switch id {
		case "foreign":
			member = fmt.Sprintf(`"id":"old-%d",`, i)
		case "native": // as in an export: behind the line before it
			member = fmt.Sprintf(`"id":%q,`, record.NewPosition(second*1000+int64(rank), 0, [8]byte{byte(i)}))
			rank++
		}
		action := rapid.SampledFrom([]string{"created", "updated", "updated", "deleted"}).Draw(t, "action")
		resource := rapid.IntRange(0, 5).Draw(t, "resource")
		lines = append(lines, fmt.Sprintf(`{%s"type":"plan.%s","resource":"p%d","eventData":{"object":{"n":%d,"note":"<é>"}},"createdAt":%d}`, member, action, resource, i, second))
	}
	return lines
}

// imported returns the whole log and all resources of the account.
func imported(t interface{ Fatalf(string, ...any) }, f *storetest.Fixture) string {
	ctx := context.Background()
	var all []byte
	for x, n := f.Events.NewExport("acct_a"), 1; n > 0; {
		var err error
		if all, n, err = x.Next(ctx, 1000, all); err != nil {
			t.Fatalf("export: %v", err)
		}
	}
	page, err := f.Events.ListResources(ctx, "acct_a", "plan", "", 1000, nil, append(all, "resources: "...))
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	return string(page.Data)
}

func importInto(t interface{ Fatalf(string, ...any) }, f *storetest.Fixture, o eventlog.ImportOptions, lines []string) eventlog.ImportSummary {
	ctx := context.Background()
	im, err := f.Events.NewImporter("acct_a", o)
	if err != nil {
		t.Fatalf("NewImporter: %v", err)
	}
	for _, line := range lines {
		if refused, err := im.Add(ctx, []byte(line), 0); err != nil || len(refused) > 0 {
			t.Fatalf("import %s: %v %v", line, refused, err)
		}
	}
	if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
		t.Fatalf("import: %v %v", refused, err)
	}
	return im.Summary()
}

// Any split of a history, with files that overlap or not, gives the same log, at the same
// positions, and the same resources as the whole. What the account held before does not
// matter, nor that an update runs again.
//
// Promise (§3.3): a history in several files, overlapping or not, with ids or without, gives the
// log and resources of one file; what a later import has goes behind its second; equal lines
// without ids count as often as they occur
func TestASplitHistoryIsTheWholeHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		lines := history(rt)
		open := func() *storetest.Fixture {
			return storetest.Open(t, twice{storetest.EmptyInMemory()}, storetest.NewClock())
		}
		whole, parts := open(), open()
		if rapid.Bool().Draw(rt, "later events") {
			for _, f := range []*storetest.Fixture{whole, parts} {
				importInto(rt, f, eventlog.ImportOptions{}, []string{`{"id":"later","type":"plan.created","resource":"p9","eventData":{"object":{}},"createdAt":1773070200}`})
			}
		}
		if sum := importInto(rt, whole, eventlog.ImportOptions{}, lines); sum.Recorded != len(lines) {
			rt.Fatalf("the whole is %+v, want %d recorded", sum, len(lines))
		}
		recorded, to := 0, 0
		for to < len(lines) {
			from := to - rapid.IntRange(0, to).Draw(rt, "overlap")*rapid.IntRange(0, 1).Draw(rt, "overlaps")
			to = min(len(lines), to+rapid.IntRange(1, len(lines)).Draw(rt, "length"))
			dry := importInto(rt, parts, eventlog.ImportOptions{DryRun: true}, lines[from:to])
			sum := importInto(rt, parts, eventlog.ImportOptions{}, lines[from:to])
			if dry != sum {
				rt.Fatalf("a dry run says %+v, and the import is %+v", dry, sum)
			}
			recorded += sum.Recorded
		}
		if recorded != len(lines) {
			rt.Fatalf("the parts recorded %d of %d lines", recorded, len(lines))
		}
		if got, want := imported(rt, parts), imported(rt, whole); got != want {
			rt.Fatalf("the parts give\n%s\nand the whole\n%s", got, want)
		}
		if sum := importInto(rt, parts, eventlog.ImportOptions{}, lines); sum.Unchanged != len(lines) {
			rt.Fatalf("the whole again is %+v, want all unchanged", sum)
		}
	})
}

// plan is a line without an id.
func plan(n int, second int64) string {
	return fmt.Sprintf(`{"type":"plan.updated","resource":"p1","eventData":{"object":{"n":%d}},"createdAt":%d}`, n, second)
}

// Promise (§3.3): a history in several files, overlapping or not, with ids or without, gives the
// log and resources of one file; what a later import has goes behind its second; equal lines
// without ids count as often as they occur
func TestEqualLinesWithoutIDs(t *testing.T) {
	t.Parallel()
	const at = 1_773_000_000
	a, b := plan(1, at), plan(2, at)
	files := func(files ...[]string) [][]string { return files }
	tests := []struct {
		name     string
		files    [][]string
		recorded []int
	}{
		{"in_one_file_they_are_two_events", files([]string{a, a}), []int{2}},
		{"as_often_as_they_are_there_they_are_those_events", files([]string{a, b, a}, []string{a, a, a}), []int{3, 1}},
		{"an_overlap_counts_them_anew", files([]string{a, a, b}, []string{a, b}, []string{a, a, b}), []int{3, 0, 0}},
		{"over_a_seam_they_are_one", files([]string{a}, []string{a}), []int{1, 0}},
		{"a_foreign_id_tells_them_apart", files([]string{strings.Replace(a, "{", `{"id":"x",`, 1)}, []string{a}), []int{1, 1}},
		{"an_id_of_ours_does_not", files([]string{strings.Replace(a, "{", fmt.Sprintf(`{"id":%q,`, record.NewPosition(at*1000+7, 0, [8]byte{1})), 1)}, []string{a}), []int{1, 0}},
		{"nor_does_it_in_one_file", files([]string{strings.Replace(a, "{", fmt.Sprintf(`{"id":%q,`, record.NewPosition(at*1000+7, 0, [8]byte{1})), 1), a, b}), []int{2}},
		{"defaults_are_as_if_given", files([]string{a}, []string{strings.Replace(a, "{", `{"source":"system","location":"import","owner":"acct_a",`, 1)}), []int{1, 0}},
		{"any_other_member_tells_them_apart", files([]string{a}, []string{strings.Replace(a, "{", `{"source":"ann",`, 1)}), []int{1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := storetest.New(t)
			for i, file := range tt.files {
				if sum := importInto(t, f, eventlog.ImportOptions{}, file); sum.Recorded != tt.recorded[i] || sum.Recorded+sum.Unchanged != len(file) {
					t.Errorf("file %d is %+v, want %d recorded", i, sum, tt.recorded[i])
				}
			}
		})
	}
}

// What a later import brings goes behind what its second holds, whoever recorded that.
//
// Promise (§3.3): a history in several files, overlapping or not, with ids or without, gives the
// log and resources of one file; what a later import has goes behind its second; equal lines
// without ids count as often as they occur
func TestALaterImportGoesBehindEventsRecordedLive(t *testing.T) {
	t.Parallel()
	f := storetest.New(t)
	f.Clock.Advance(731_000_000)
	recordOne(t, f, "plan.created")
	second := f.Now().Unix()
	recordOne(t, f, "plan.created")
	importInto(t, f, eventlog.ImportOptions{}, []string{plan(1, second), strings.Replace(plan(2, second), "{", `{"id":"x",`, 1), plan(3, second)})
	importInto(t, f, eventlog.ImportOptions{}, []string{plan(4, second), plan(3, second)})
	var got []string
	for event := range strings.SplitSeq(imported(t, f), "\n") {
		if _, rest, found := strings.Cut(event, `"n":`); found {
			got = append(got, rest[:1])
		} else {
			got = append(got, "live")
		}
	}
	if all := strings.Join(got[:6], " "); all != "live live 1 2 3 4" {
		t.Errorf("the log is %s", all)
	}
	live := strings.SplitN(imported(t, f), "\n", 3)
	line := "{" + live[0][len(`{"id":"evt_01kk9kgbjj00023m5qehe9m3gk",`):]
	if sum := importInto(t, f, eventlog.ImportOptions{}, []string{line}); sum.Unchanged != 1 {
		t.Errorf("the line of a live event is %+v, want unchanged: %s", sum, line)
	}
}

// Two imports of one file at the same time are one import.
//
// Promise (§3.3): a history in several files, overlapping or not, with ids or without, gives the
// log and resources of one file; what a later import has goes behind its second; equal lines
// without ids count as often as they occur
func TestTwoImportsOfOneFileAreOne(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 3000 {
		lines = append(lines, plan(i, 1_773_000_000+int64(i/700)))
	}
	f, alone := storetest.New(t), storetest.New(t)
	importInto(t, alone, eventlog.ImportOptions{}, lines)
	var both sync.WaitGroup
	sums := make([]eventlog.ImportSummary, 2)
	for i := range sums {
		both.Go(func() { sums[i] = importInto(t, f, eventlog.ImportOptions{}, lines) })
	}
	both.Wait()
	if got, want := imported(t, f), imported(t, alone); got != want || sums[0].Recorded+sums[1].Recorded != len(lines) {
		t.Errorf("the two recorded %d and %d of %d lines, and the log is the whole: %v", sums[0].Recorded, sums[1].Recorded, len(lines), got == want)
	}
}

// An import in order of what is recorded holds almost nothing of it in memory, and so does
// one that breaks off within a second and is run again.
//
// Promise (§3.3): a history in several files, overlapping or not, with ids or without, gives the
// log and resources of one file; what a later import has goes behind its second; equal lines
// without ids count as often as they occur
func TestABrokenImportGoesOnWithinASecond(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 2500 {
		lines = append(lines, plan(i, 1_773_000_000))
	}
	f, alone := storetest.New(t), storetest.New(t)
	importInto(t, alone, eventlog.ImportOptions{}, lines)
	importInto(t, f, eventlog.ImportOptions{}, lines[:1111])
	if sum := importInto(t, f, eventlog.ImportOptions{}, lines); sum.Unchanged != 1111 || sum.Recorded != len(lines)-1111 {
		t.Errorf("the second run is %+v", sum)
	}
	if imported(t, f) != imported(t, alone) {
		t.Error("the log is not that of one run")
	}
}
