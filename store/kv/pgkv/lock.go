package pgkv

import (
	"context"
	"fmt"
	"hash/crc32"

	"tollhouse/store/kv"
)

// namedClass is the class of the advisory locks with a name. Their other number is the
// checksum of the name.
func (a *Address) namedClass() int32 { return a.lockClass() + 1 }

// TryLock is [kv.Locker]. A connection of its own holds the lock: it is released when this
// process exits.
func (db *DB) TryLock(ctx context.Context, name string) (unlock func(), ok bool, err error) {
	if err := db.enter(ctx); err != nil {
		return nil, false, err
	}
	defer db.inFlight.Done()
	dialing, cancel := context.WithTimeout(ctx, db.opts.wait(connectionWait))
	defer cancel()
	c, err := db.dial(dialing, roleLocker)
	if err == nil {
		err = c.QueryRow(dialing, "select pg_try_advisory_lock"+db.address.namedLock(name)).Scan(&ok)
	}
	if err != nil || !ok {
		if c != nil {
			c.discard()
		}
		if err != nil {
			err = fmt.Errorf("lock %s: %w", name, asAway(ctx, err))
		}
		return nil, false, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), db.opts.wait(connectionWait))
		defer cancel()
		_, _ = c.Exec(ctx, "select pg_advisory_unlock"+db.address.namedLock(name)) // now; otherwise with the connection
		c.discard()
	}, true, nil
}

func (a *Address) namedLock(name string) string {
	return fmt.Sprintf("(%d, %d)", a.namedClass(), int32(crc32.ChecksumIEEE([]byte(name))))
}

// lockInstance is the class of the lock that each server shares for its store's instance. It
// is seen from the other databases of the same PostgreSQL, whatever the schemas.
const lockInstance = lockClass + 2

func instanceNumber(site map[string]string) int64 {
	return int64(crc32.ChecksumIEEE([]byte(site["instance"])))
}

func instanceLock(site map[string]string) string {
	return fmt.Sprintf("(%d, %d)", lockInstance, int32(instanceNumber(site)))
}

var _ kv.Locker = (*DB)(nil)
