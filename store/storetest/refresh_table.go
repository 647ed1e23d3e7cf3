package storetest

import (
	"time"

	"tollhouse/store/record"
)

// RefreshState is the state of a refresh token that a caller sends, in the terms of the
// table of docs/internals/decisions.md.
type RefreshState struct {
	Foreign bool // another client's
	Revoked bool // its family is
	Ended   bool // its client or user was ended
	Retired bool // a fresh token took its place before it was seen
	Expired bool
	Spent   bool

	// Of its pair, when it is spent.
	PairSpent   bool // the pair's refresh token is
	PairUsed    bool
	PairAge     time.Duration // negative when the clock was set back
	PairExpired bool          // the pair's access token is
}

// Judge is that table, written independently of the store: the answer to a refresh under a
// grace period. Without a refusal it is the identical pair again, or a fresh one.
// ErrReplayed also revokes the family.
func (s RefreshState) Judge(grace time.Duration) (identical bool, refusal error) {
	switch {
	case s.Foreign:
		return false, record.ErrMismatch
	case s.Revoked:
		return false, record.ErrRevoked
	case s.Ended:
		return false, record.ErrDisabled
	case s.Spent && !s.PairSpent && s.PairAge.Abs() <= grace && !s.PairExpired:
		return true, nil
	case s.Expired, s.Spent && !s.PairSpent && s.PairAge.Abs() <= grace:
		return false, record.ErrExpired
	case s.Retired, s.Spent && (s.PairSpent || s.PairUsed):
		return false, record.ErrReplayed
	}
	return false, nil
}
