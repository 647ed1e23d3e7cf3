package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
)

// WritesDefault is how many bytes an account may write in an hour. 2 GiB are some 300
// changes a second, all day, of resources that take 2 KiB with their events (twice the
// event, once the snapshot, and the keys), or 800 refreshes a second. An eighth may be
// written in one burst: 130,000 changes.
const (
	WritesDefault = 2 << 30
	writesAtOnce  = 8 // its share of an hour
)

// busiestLeast is less than what an account that has filled a disk has written.
const busiestLeast = 1 << 20

// Budget bounds what tokens, sessions and clients of an account make a store write: bytes
// of keys and values, before the engine compresses or copies them. It is in memory, for
// each process. The zero Budget bounds nothing.
type Budget struct {
	now     func() time.Time
	bounded bool
	used    Allowance[string]
	refused func()
}

// BudgetError means that an account has written too much lately. Nothing was changed.
type BudgetError struct{ Wait time.Duration }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the account has written too much; it may go on in %s", e.Wait.Round(time.Second))
}

// Init allows that many bytes in an hour; 0 means that all are counted and none refused.
func (b *Budget) Init(hourly int64, now func() time.Time, refused func()) {
	b.now, b.bounded, b.refused = now, hourly > 0, refused
	if !b.bounded {
		hourly = WritesDefault
	}
	hourly = min(hourly, int64(time.Hour)) // a byte takes at least a nanosecond
	b.used.Init(hourly/writesAtOnce, time.Hour/time.Duration(hourly), true)
}

// Update is the engine's for a change that the account asked for. An account that has used
// up its budget is refused with [*BudgetError], before anything is written. What the
// update writes is counted before it is committed, in any case: an ending is not refused,
// and what it wrote counts for the next change. Account "" is an operator, who is not counted.
func (b *Budget) Update(ctx context.Context, db kv.DB, account string, fn func(kv.Txn) error) error {
	return b.UpdateOf(ctx, db, func(tx kv.Txn) (string, error) { return account, fn(tx) })
}

// UpdateOf is Update where fn finds out the account.
func (b *Budget) UpdateOf(ctx context.Context, db kv.DB, fn func(kv.Txn) (account string, err error)) error {
	var account string
	counted := int64(0)
	giveBack := func() {
		if counted > 0 {
			b.used.Note(account, -counted, b.now())
			counted = 0
		}
	}
	err := db.Update(ctx, func(tx kv.Txn) (err error) {
		giveBack() // fn runs again
		if account, err = fn(tx); err != nil || account == "" || b == nil || b.now == nil || tx.Written() == 0 {
			return err
		}
		if wait := b.wait(account); wait > 0 && tx.As(kv.Ordinary) < kv.Ending {
			b.refused()
			return &BudgetError{Wait: wait}
		}
		counted = int64(tx.Written())
		b.used.Note(account, counted, b.now())
		return nil
	})
	if err != nil && !errors.Is(err, kv.ErrUnknownOutcome) {
		giveBack()
	}
	return err
}

func (b *Budget) wait(account string) time.Duration {
	if !b.bounded {
		return 0
	}
	return b.used.Wait(account, b.now())
}

// IsBusiest reports whether the account is one of those that wrote most lately.
func (b *Budget) IsBusiest(account string) bool {
	return b.now != nil && b.used.IsBusiest(account, busiestLeast, b.now())
}
