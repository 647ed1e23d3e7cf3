package store

import (
	"context"
	"errors"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// An import with ImportOptions.Update replaces the users and clients that an import made and that
// nobody used or changed here since. Every change raises the revision; a use forgets which one the
// import wrote, in the record itself: sessions and families end, and those of a deleted client go
// with it.

// isReplaceable reports whether an import made the record and nobody used or changed it since.
func (u User) isReplaceable() bool { return u.importedRevision == u.Revision }

func (c Client) isReplaceable() bool { return c.importedRevision == c.Revision }

// userSignedIn notes that a user proved the password. A failure does not refuse the sign-in; the next
// one tries again.
func (s *Store) userSignedIn(ctx context.Context, u User) {
	if !u.isReplaceable() {
		return
	}
	err := record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error { return userUsed(tx, u.ID) })
	if err != nil {
		s.log.Warn("use of an imported user not noted", "user_id", u.Subject(), "err", err)
	}
}

// clientAuthenticated is userSignedIn for a client that proved its secret.
func (s *Store) clientAuthenticated(ctx context.Context, c Client) {
	if !c.isReplaceable() {
		return
	}
	err := record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error { return clientUsed(tx, c.ID) })
	if err != nil {
		s.log.Warn("use of an imported client not noted", "client_id", c.ID, "err", err)
	}
}

// userUsed notes the use of a user within tx, unless the user was deleted.
func userUsed(tx kv.Txn, id secret.ID) error {
	now, err := readUser(tx, id)
	if err != nil || !now.isReplaceable() {
		return record.GoneIsNil(err)
	}
	was := now
	now.importedRevision = 0
	return writeUser(tx, was, now)
}

// clientUsed is userUsed for a client.
func clientUsed(tx kv.Txn, id string) error {
	now, err := readClient(tx, id)
	if err != nil || !now.isReplaceable() {
		return record.GoneIsNil(err)
	}
	now.importedRevision = 0
	return writeClient(tx, now)
}

// partiesUsed notes the use of both within tx. A family alone would not say so: it ends, also with
// the other of the two.
func partiesUsed(tx kv.Txn, l lineage) error {
	return errors.Join(clientUsed(tx, l.client), userUsed(tx, l.user))
}
