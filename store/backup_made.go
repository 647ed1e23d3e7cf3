package store

import (
	"context"
	"fmt"
	"time"

	"tollhouse/store/backup"
	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// BackupMade is what the store remembers of a backup of it. Who makes one says
// so when it lies whole where it belongs: the store alone only knows what it has
// handed out.
type BackupMade struct {
	Created   time.Time // the moment whose state it holds, as its header says
	File      string    // where it lies, or "-" when it was sent on
	Bytes     uint64    // of the file
	Records   uint64
	Scheduled bool // made by the server itself, unasked
}

const (
	metaBackup   = "backup" // names the record of the last backup
	backupRecord = 1
)

// The reasons of the audit lines about backups.
const (
	auditBackup          = "backup made"
	auditBackupScheduled = "backup made on schedule"
	auditRestore         = "restored from a backup"
)

// RecordBackup notes the last backup, and that it was made in the audit record.
// A restored store knows the backup before the one that it came from.
func (s *Store) RecordBackup(ctx context.Context, made BackupMade, by By) error {
	line := AuditLine{What: AuditAdmin, Reason: auditBackup, By: by}
	if made.Scheduled {
		line.Reason = auditBackupScheduled
	}
	now, tail := s.Now(), secret.NewLateTail()
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		if err := appendAudit(tx, line, now, tail); err != nil {
			return err
		}
		return tx.Set(metaKey(metaBackup), encodeBackup(made), time.Time{})
	})
	if err != nil {
		return fmt.Errorf("record backup: %w", err)
	}
	return nil
}

// LastBackup returns the backup that was recorded last. Errors: ErrNotFound when
// none was.
func (s *Store) LastBackup(ctx context.Context) (made BackupMade, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		v, err := r.Get(metaKey(metaBackup))
		if err == nil {
			made, err = decodeBackup(v)
		}
		return err
	})
	if err != nil {
		return BackupMade{}, fmt.Errorf("find the last backup: %w", found(err))
	}
	return made, nil
}

// RecordRestore writes into the audit record of a store that a Load has filled
// from the backup with that header, that it was restored and from what moment.
func RecordRestore(ctx context.Context, db kv.DB, from backup.Header, now time.Time) error {
	line := AuditLine{What: AuditAdmin, Reason: auditRestore + " of " + from.Created.UTC().Format(time.RFC3339)}
	now, tail := now.UTC().Truncate(time.Millisecond), secret.NewLateTail()
	if err := db.Update(ctx, func(tx kv.Txn) error { return appendAudit(tx, line, now, tail) }); err != nil {
		return fmt.Errorf("record restore: %w", err)
	}
	return nil
}

func encodeBackup(b BackupMade) []byte {
	e := newEncoder(backupRecord)
	e.time(b.Created)
	e.str(b.File)
	e.uint(b.Bytes)
	e.uint(b.Records)
	e.bool(b.Scheduled)
	return e.b
}

func decodeBackup(v []byte) (BackupMade, error) {
	d := newDecoder("last backup", backupRecord, v)
	b := BackupMade{Created: d.time(), File: d.str(), Bytes: d.uint(), Records: d.uint(), Scheduled: d.bool()}
	return b, d.done()
}
