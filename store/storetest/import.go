package storetest

import (
	"context"

	"tollhouse/store"
	"tollhouse/store/eventlog"
)

// ImportLines imports lines and fails on a rejected one.
func ImportLines(t interface {
	Fatalf(format string, args ...any)
}, s *store.Store, account string, lines ...string) {
	ctx := context.Background()
	im, err := s.Events.NewImporter(account, eventlog.ImportOptions{})
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
}
