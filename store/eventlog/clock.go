package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// aheadOfClockMax is how far an account's newest event may be ahead of the clock at
// startup. The engine allows the same for its last write.
const aheadOfClockMax = 60 * time.Second

const headsPageMax = 1000 // heads read in one View

// AheadError means that an account's newest event is in the future. Positions only
// grow, so every event from now on would get a later time than that, however wrong it
// is.
type AheadError struct {
	Account string
	Newest  time.Time // when the newest event was recorded, by the clock at that time
	Now     time.Time
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("the newest event of the account %s was recorded at %s, and the clock says %s",
		e.Account, e.Newest.Format(time.RFC3339), e.Now.Format(time.RFC3339))
}

// Hint returns the next step.
func (e *AheadError) Hint() string {
	return "set the clock right and start again; if it is right, start with --accept-clock, and new events of the account are given times behind that one"
}

// CheckClock checks that the newest event of every account is in the past. The engine
// compares the clock with its last write only; a store copied from elsewhere, or once
// started with a wrong clock, is caught here. Errors: *AheadError.
func (l *Log) CheckClock(ctx context.Context) error {
	now := l.now()
	err := l.eachHead(ctx, func(owner string, v []byte) error {
		head, err := decodeEventHead(v)
		if err != nil {
			return err
		}
		if head.last.Time().Sub(now) > aheadOfClockMax {
			return &AheadError{Account: owner, Newest: head.last.Time(), Now: now}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("check the clock: %w", err)
	}
	return nil
}

// eachHead visits the head of every account's log, outside a transaction.
func (l *Log) eachHead(ctx context.Context, visit func(owner string, head []byte) error) error {
	prefix := record.NewKey(record.TagEventHead)
	r := prefix.All()
	r.Limit = headsPageMax
	for {
		var owners []string
		var heads [][]byte
		err := l.db.View(ctx, func(rd kv.Reader) error {
			for k, v := range rd.Scan(r) {
				owner, _ := record.CutString(k[len(prefix):])
				owners, heads = append(owners, owner), append(heads, bytes.Clone(v))
				r.Lo = append(bytes.Clone(k), 0)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, owner := range owners {
			if err := visit(owner, heads[i]); err != nil {
				return err
			}
		}
		if len(owners) < headsPageMax {
			return nil
		}
	}
}
