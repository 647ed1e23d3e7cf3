package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/backup"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// Promise (Backup): scheduled backups survive restarts; the oldest goes when the newest is
// complete; status, metrics and audit show the last
func TestRecordBackup(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	lastLine := func(t *testing.T, s *store.Store) store.AuditLine {
		t.Helper()
		lines, err := s.ListAudit(ctx, record.Position{}, 100)
		if err != nil || len(lines) == 0 {
			t.Fatalf("ListAudit() = %v, %v, want lines", lines, err)
		}
		return lines[len(lines)-1]
	}
	t.Run("the_last_one_is_remembered_and_has_its_audit_line", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		if _, err := f.LastBackup(ctx); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("LastBackup() of a new store = %v, want ErrNotFound", err)
		}
		for _, made := range []store.BackupMade{
			{Created: f.Now(), File: "-", Bytes: 1, Records: 2},
			{Created: f.Now().Add(time.Hour), File: "/var/backups/näxt", Bytes: 1 << 40, Records: 7, Scheduled: true},
			{Created: f.Now().Add(2 * time.Hour), File: "/var/backups/x.backup.age", Bytes: 3, Records: 9, Encrypted: true},
		} {
			must.Do(t, f.RecordBackup(ctx, made, store.By{RequestID: "req_b"}))
			if last, err := f.Reopened(t).LastBackup(ctx); err != nil || last != made {
				t.Errorf("LastBackup() = %+v, %v, want %+v", last, err, made)
			}
			want := map[bool]string{false: "backup made", true: "backup made on schedule"}[made.Scheduled]
			if line := lastLine(t, f.Store); line.What != store.AuditAdmin || line.Reason != want || line.RequestID != "req_b" {
				t.Errorf("audit line = %+v, want %q", line, want)
			}
		}
		if _, err := f.CheckAll(ctx); err != nil {
			t.Errorf("CheckAll() = %v", err)
		}
	})
	t.Run("a_damaged_note_is_found_and_not_believed", func(t *testing.T) {
		t.Parallel()
		f := storetest.New(t)
		must.Do(t, f.RecordBackup(ctx, store.BackupMade{Created: f.Now(), File: "x"}, store.By{}))
		if err := f.DB.Update(ctx, func(tx kv.Txn) error { return tx.Set([]byte("mbackup\x00"), []byte{1, 2}, time.Time{}) }); err != nil {
			t.Fatal(err)
		}
		if _, err := f.LastBackup(ctx); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("LastBackup() = %v, want ErrCorrupt", err)
		}
		if _, err := f.CheckAll(ctx); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("CheckAll() = %v, want ErrCorrupt", err)
		}
	})
	t.Run("a_restore_has_its_audit_line_in_what_was_restored", func(t *testing.T) {
		t.Parallel()
		db := storetest.EmptyInMemory()
		f := storetest.Open(t, db, storetest.NewClock())
		f.Clock.Advance(time.Hour)
		must.Do(t, store.RecordRestore(ctx, db, backup.Header{Created: time.Unix(1773066600, 0)}, f.Now()))
		if line := lastLine(t, f.Store); line.Reason != "restored from a backup of 2026-03-09T14:30:00Z" || line.What != store.AuditAdmin || !line.At.Equal(f.Now()) {
			t.Errorf("audit line = %+v, want that it was restored", line)
		}
		if _, err := f.CheckAll(ctx); err != nil {
			t.Errorf("CheckAll() = %v", err)
		}
	})
}
