package pgkv

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// writeSlow is how long a group of updates may take before the server counts as not ready,
	// as in badgerkv: a disk that hangs and a standby that is gone report no error.
	writeSlow = 10 * time.Second
	// tryEvery is how often a test write is tried after a refused one.
	tryEvery = time.Second
	// trySize is the size of a test write, in bytes: more than a page, so that it needs new
	// space, as most writes do. A full disk still takes a write that fits into the pages it has.
	trySize = 32 << 10
)

// writing is what is known about the success of writes.
type writing struct {
	begun   atomic.Pointer[time.Time] // of the group in work, or nil
	fault   atomic.Pointer[error]     // since a group was refused, or nil
	refused chan struct{}             // wakes watchWrites
}

func newWriting() writing { return writing{refused: make(chan struct{}, 1)} }

// begin notes that a group is in work until end is called.
func (w *writing) begin() (end func()) {
	now := time.Now()
	w.begun.Store(&now)
	return func() { w.begun.Store(nil) }
}

// refuse notes why a group was refused.
func (w *writing) refuse(why error) {
	w.fault.Store(&why)
	select {
	case w.refused <- struct{}{}:
	default: // it is being watched
	}
}

// WriteFault returns why updates fail, as far as the last one and the test writes since then
// show, or nil.
func (db *DB) WriteFault() error {
	if fault := db.writing.fault.Load(); fault != nil {
		return *fault
	}
	if begun := db.writing.begun.Load(); begun != nil && time.Since(*begun) > db.opts.wait(writeSlow) {
		return &AwayError{Reason: fmt.Sprintf("it has not ended a write for %s", time.Since(*begun).Round(time.Second))}
	}
	return nil
}

// watchWrites tries a test write after an update was refused, until one succeeds.
func (db *DB) watchWrites(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-db.writing.refused:
		}
		for warned := false; ; {
			err := db.tryWrite(ctx)
			if err == nil {
				db.writing.fault.Store(nil)
				if warned {
					db.opts.Log.Info("database accepts writes again")
				}
				break
			}
			if ctx.Err() != nil {
				return
			}
			db.writing.fault.Store(&err)
			if !warned && db.address.refusedFor() == nil { // that is logged by itself
				warned = true
				db.opts.Log.Warn("database refuses writes: not ready until a test write succeeds", "err", err)
			}
			if pause(ctx, tryEvery) != nil {
				return
			}
		}
	}
}

func (db *DB) tryWrite(ctx context.Context) error {
	s, err := Dial(ctx, db.address)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.TryWrite(ctx)
}

// TryWrite commits a row that it has removed again. The table is one of ours that no reader of
// records sees. Errors: *[FullError], *[AwayError].
func (s *Session) TryWrite(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	filler := make([]byte, trySize/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(filler) // PostgreSQL must not compress it into a page
	text, err := json.Marshal(hex.EncodeToString(filler))
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, s.conn, func(tx pgx.Tx) error {
		var id []byte
		err := tx.QueryRow(ctx, "insert into server (id, told, seen) values (decode(replace(gen_random_uuid()::text, '-', ''), 'hex'), $1, clock_timestamp()) returning id", string(text)).Scan(&id)
		if err == nil {
			_, err = tx.Exec(ctx, "delete from server where id = $1", id)
		}
		return err
	})
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.Code == "53100":
		return &FullError{}
	}
	return asAway(ctx, err)
}
