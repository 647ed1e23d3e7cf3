package store

import (
	"context"
	"fmt"
	"time"

	"tollhouse/store/backup"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// BackupMade is the store's record of its last backup. The caller records it once the
// file is complete and in its final location, which the store does not know.
type BackupMade struct {
	Created   time.Time // the time in its header
	File      string    // its path, or "-" for standard output
	Bytes     uint64    // file size
	Records   uint64
	Scheduled bool // made by the server's schedule
	Encrypted bool
}

const (
	metaBackup      = "backup" // name of the record of the last backup
	backupRecord    = 1
	backupEncrypted = 2 // the record of an encrypted one, which has the same fields
)

// Reasons of audit lines about backups.
const (
	auditBackup          = "backup made"
	auditBackupScheduled = "backup made on schedule"
	auditRestore         = "restored from a backup"
)

// RecordBackup records the last backup, also in the audit log. After a restore, the
// store shows the backup before the restored one.
func (s *Store) RecordBackup(ctx context.Context, made BackupMade, by By) error {
	line := AuditLine{What: AuditAdmin, Reason: auditBackup, By: by}
	if made.Scheduled {
		line.Reason = auditBackupScheduled
	}
	now, tail := s.Now(), secret.NewTail(nil)
	err := record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error {
		if err := appendAudit(tx, line, now, tail); err != nil {
			return err
		}
		return tx.Set(record.MetaKey(metaBackup), encodeBackup(made), time.Time{})
	})
	if err != nil {
		return fmt.Errorf("record backup: %w", err)
	}
	return nil
}

// RecordSettings writes an audit line for each change of a setting that a command has made.
func (s *Store) RecordSettings(ctx context.Context, changes []string) error {
	for _, reason := range changes {
		now, tail := s.Now(), secret.NewTail(nil)
		err := record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error {
			return appendAudit(tx, AuditLine{What: AuditAdmin, Reason: reason}, now, tail)
		})
		if err != nil {
			return fmt.Errorf("the setting is changed, but the audit record lacks it: %w", err)
		}
	}
	return nil
}

// LastBackup returns the last recorded backup. Errors: ErrNotFound if none is recorded.
func (s *Store) LastBackup(ctx context.Context) (made BackupMade, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		v, err := r.Get(record.MetaKey(metaBackup))
		if err == nil {
			made, err = decodeBackup(v)
		}
		return err
	})
	if err != nil {
		return BackupMade{}, fmt.Errorf("find the last backup: %w", record.Found(err))
	}
	return made, nil
}

// RecordRestore writes an audit line about the restore into a store that Load has
// filled from the backup with that header, and begins an epoch; see [Store.Epoch].
func RecordRestore(ctx context.Context, db kv.DB, from backup.Header, now time.Time) error {
	line := AuditLine{What: AuditAdmin, Reason: auditRestore + " of " + from.Created.UTC().Format(time.RFC3339)}
	// A copy tells nobody what its original had to tell.
	if err := record.DeleteAll(ctx, db, record.NewKey(record.TagAlarm).All()); err != nil {
		return fmt.Errorf("record restore: %w", err)
	}
	now, tail, epoch := now.UTC().Truncate(time.Millisecond), secret.NewTail(nil), newEpoch()
	err := db.Update(ctx, func(tx kv.Txn) error {
		if err := writeEpoch(tx, epoch); err != nil {
			return err
		}
		return appendAudit(tx, line, now, tail)
	})
	if err != nil {
		return fmt.Errorf("record restore: %w", err)
	}
	return nil
}

func encodeBackup(b BackupMade) []byte {
	return record.NewEncoder(backupVersion(b.Encrypted)).Time(b.Created).Str(b.File).Uint(b.Bytes).Uint(b.Records).Bool(b.Scheduled).B
}

func decodeBackup(v []byte) (BackupMade, error) {
	encrypted := len(v) > 0 && v[0] == backupEncrypted
	d := record.NewDecoder("last backup", backupVersion(encrypted), v)
	b := BackupMade{Created: d.Time(), File: d.Str(), Bytes: d.Uint(), Records: d.Uint(), Scheduled: d.Bool(), Encrypted: encrypted}
	return b, d.Done()
}

func backupVersion(encrypted bool) byte {
	if encrypted {
		return backupEncrypted
	}
	return backupRecord
}
