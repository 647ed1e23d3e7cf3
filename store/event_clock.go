package store

import (
	"context"
	"fmt"
	"time"

	"tollhouse/store/kv"
)

// aheadOfClockMax is how far an account's newest event may lie before our clock
// at start: as far as a clock may be behind the last write.
const aheadOfClockMax = 60 * time.Second

const headsPageMax = 1000 // heads read in one View

// AheadError says that an account's newest event lies in the future. Places in
// the log only ever grow, so that every event from now on would be given a time
// behind that one, however wrong it is.
type AheadError struct {
	Account string
	Newest  time.Time // when the newest event was recorded, by the clock of then
	Now     time.Time
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("the newest event of the account %s was recorded at %s, and the clock says %s",
		e.Account, e.Newest.Format(time.RFC3339), e.Now.Format(time.RFC3339))
}

// Hint says what to do.
func (e *AheadError) Hint() string {
	return "set the clock right and start again; if it is right, start with --accept-clock, and new events of the account are given times behind that one"
}

// CheckClock looks whether the newest event of every account lies in the past.
// The engine compares the clock with its last write; a store that was copied
// from elsewhere, or started once under a wrong clock that was accepted, shows
// it only here. Errors: *AheadError.
func (s *Store) CheckClock(ctx context.Context) error {
	now := s.Now()
	heads := newKey(tagEventHead)
	r := heads.all()
	r.Limit = headsPageMax
	for {
		read := 0
		err := s.db.View(ctx, func(rd kv.Reader) error {
			for k, v := range rd.Scan(r) {
				head, err := decodeEventHead(v)
				if err != nil {
					return err
				}
				if head.last.Time().Sub(now) > aheadOfClockMax {
					account, _ := cutString(k[len(heads):])
					return &AheadError{Account: account, Newest: head.last.Time(), Now: now}
				}
				read++
				r.Lo = append(append([]byte(nil), k...), 0)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("check the clock: %w", err)
		}
		if read < headsPageMax {
			return nil
		}
	}
}
