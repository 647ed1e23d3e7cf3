package store

import (
	"context"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// An account has two budgets of the same size. One bounds what its changes write, the other what
// its sign-ins, grants and refreshes write: a token that writes too much
// cannot keep users of its account from signing in.

func (s *Store) initBudgets(hourly int64) {
	refused := func() { s.overdrawn.Add(1) }
	s.writes.Init(hourly, s.Now, refused)
	s.tokens.Init(hourly, s.Now, refused)
}

// access is Update for a sign-in or a grant.
func (s *Store) access(ctx context.Context, account string, fn func(kv.Txn) error) error {
	ctx = s.naming(ctx, func() [][]byte { return [][]byte{record.AccountKey(account), record.MetaKey(auditHeadName)} })
	return s.tokens.Update(ctx, s.db, account, func(tx kv.Txn) error {
		tx.As(s.accessClass(account))
		return fn(tx)
	})
}

// accessClass returns the class of an account's sign-ins and refreshes.
func (s *Store) accessClass(account string) kv.Class {
	if s.writes.IsBusiest(account) || s.tokens.IsBusiest(account) {
		return kv.AccessOfBusiest
	}
	return kv.Access
}

// ending returns the class of what by ends: an operator uses the admin socket, which has
// no address, or the desk.
func (by By) ending() kv.Class {
	if by.Source == "" || by.Actor.OperatorID != "" {
		return kv.Ruling
	}
	return kv.Ending
}
