package store

import (
	"errors"
	"time"

	"tollhouse/store/secret"
)

// ErrTooOften means that a family has refreshed too often and must wait, at most
// [Lifetimes.RotationEvery], or that a client has requested tokens for itself, or been
// authorized by one user, too often and must wait, at most ClientGrantEvery, or that a user
// has changed the password too often and must wait, at most PasswordEvery. Nothing was changed.
var ErrTooOften = errors.New("too often")

// Spent refresh tokens are kept for their own lifetime, so a client that refreshes as fast as
// it can would fill the disk. A family therefore gets a large burst of rotations and then a
// rate. A normal client refreshes about once per access token lifetime and never reaches the
// limit.
//
// A grant to a client that acts for itself adds a line to the audit log, so each client gets
// the same burst. Its rate is higher, because all machines of a client share it.
//
// A password or an authorization code starts a family, which is kept for a year. One user
// gets as many of them for one client: a test suite that signs the same user in ten times a
// second is not slowed down for three hours.
//
// A password change revokes access, so it is written while changes are refused. A user who
// keeps changing the password would use up the space reserved for that.
const (
	allowedAtOnce    = 100_000
	passwordsAtOnce  = 20
	ClientGrantEvery = time.Second // per client, or user of a client, after its burst
	PasswordEvery    = time.Minute // per user, after its burst
)

// RotationEvery is the time in which a family that has used up its burst may refresh once
// more: one second per started 14 days of the refresh token's lifetime, at most ten. A
// family then keeps at most 1.2 million spent tokens beyond its burst, or, where tokens live
// for more than 140 days, 3.2 million in the year that it lives.
func (l Lifetimes) RotationEvery() time.Duration {
	const fortnight = 14 * 24 * time.Hour
	begun := (l.RefreshToken + fortnight - 1) / fortnight
	return min(begun, 10) * time.Second
}

// granted is whom a client acts for: a user, or, with a zero id, itself.
type granted struct {
	client string
	user   secret.ID
}

func (l lineage) granted() granted { return granted{client: l.client, user: l.user} }

func orDefault(atOnce int) int64 {
	if atOnce == 0 {
		return allowedAtOnce
	}
	return int64(atOnce)
}
