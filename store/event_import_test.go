package store_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/storetest"
)

// TestImportKeepsNoLines: what an import remembers of a line, as a dry run does of
// each id, does not keep all of its text.
func TestImportKeepsNoLines(t *testing.T) {
	for name, form := range map[string]string{
		"recorded": `{"id":"ev-%d","type":"plan.created","resource":"p%[1]d","eventData":{"object":{}},"createdAt":1773000000%[2]s}`,
		"refused":  `{"m%d":1%[2]s}`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			im, err := storetest.New(t).NewImporter("acct_a", store.ImportOptions{DryRun: true, SkipErrors: true})
			if err != nil {
				t.Fatal(err)
			}
			const lines, size = 900, 60 << 10 // fewer than a batch of refused ones
			space := strings.Repeat(" ", size)
			before := heap()
			for i := range lines {
				if refused, err := im.Add(ctx, fmt.Appendf(nil, form, i, space), 0); err != nil || len(refused) > 0 {
					t.Fatal(refused, err)
				}
			}
			waiting := heap() - before
			refused, err := im.Flush(ctx)
			if err != nil || len(refused)+im.Summary().Recorded != lines {
				t.Fatalf("Flush() = %d refused, %v, and %d recorded, want %d together", len(refused), err, im.Summary().Recorded, lines)
			}
			for i, fault := range refused {
				if want := fmt.Sprintf("m%d", i); fault.Line != i+1 || fault.Param != want || !strings.Contains(fault.Reason, want) {
					t.Errorf("line %d is refused as %+v, want its own member", i+1, fault)
				}
			}
			if held := heap() - before; waiting > lines*size/8 || held > lines*size/8 {
				t.Errorf("of %d bytes of lines %d are held while they wait, and %d in the end", lines*size, waiting, held)
			}
			runtime.KeepAlive(im)
		})
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
