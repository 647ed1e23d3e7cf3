package store

import (
	"context"
	"errors"
	"slices"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Guard is what must hold for a change of an account, a user or a client. It is checked in the
// transaction of the change, so what another request commits in between counts. The zero Guard
// refuses nothing: it is that of the machine. Several Guards must all hold.
type Guard struct {
	// Live returns why the caller may not make a change any more, or nil; see [Store.LiveIn]. It is
	// called first, and in each transaction of a change.
	Live func(r kv.Reader) error
	// If is the condition on the revision (RFC 9110 §13.1.1), or nil; else ErrPrecondition. What
	// does not exist yet has revision 0. If has no side effects, since it may be called again, as
	// User and Client may.
	If func(revision uint64) bool
	// Protect refuses to change an operator, a platform client, or a client that may introspect,
	// with ErrProtected.
	Protect bool
	// KnownAccount refuses with ErrUnknownAccount to create the account of a user or a client.
	KnownAccount bool
	// User returns why the user may not be changed, or nil. It is called after Live.
	User func(User) error
	// Client returns why the client may not be changed, or nil. It is called after Live, and sees
	// the client as it was and as it is to become.
	Client func(Client) error
}

var (
	// ErrProtected means that only the machine may change the user or the client.
	ErrProtected = errors.New("is protected")
	// ErrUnknownAccount means that the account of a user or a client does not exist.
	ErrUnknownAccount = errors.New("account does not exist")
)

// checks are Guards that must all hold.
type checks []Guard

// begin checks within a transaction that the caller may still make a change.
func (cs checks) begin(r kv.Reader) error {
	for _, g := range cs {
		if g.Live == nil {
			continue
		}
		if err := g.Live(r); err != nil {
			return err
		}
	}
	return nil
}

// guarded returns db with [checks.begin] at the beginning of each transaction.
func (cs checks) guarded(db kv.DB) kv.DB { return record.GuardedDB{DB: db, Check: cs.begin} }

// check checks what the Guards say about a record that exists.
func (cs checks) check(revision uint64, isProtected bool) error {
	for _, g := range cs {
		switch {
		case g.Protect && isProtected:
			return ErrProtected
		case g.If != nil && !g.If(revision):
			return record.ErrPrecondition
		}
	}
	return nil
}

func (cs checks) account(a Account) error { return cs.check(a.Revision, false) }

func (cs checks) user(u User) error {
	err := cs.check(u.Revision, u.Operator)
	for _, g := range cs {
		if err == nil && g.User != nil {
			err = g.User(u)
		}
	}
	return err
}

func (cs checks) client(c Client) error {
	if err := cs.check(c.Revision, c.isProtected()); err != nil {
		return err
	}
	return cs.becomes(c)
}

// becomes checks a client as it is to become.
func (cs checks) becomes(c Client) error {
	for _, g := range cs {
		if g.Client == nil {
			continue
		}
		if err := g.Client(c); err != nil {
			return err
		}
	}
	return nil
}

// absent checks what the Guards say about a record that does not exist.
func (cs checks) absent() error {
	for _, g := range cs {
		if g.If != nil && !g.If(0) {
			return record.ErrPrecondition
		}
	}
	return nil
}

func (cs checks) wantKnownAccount() bool {
	for _, g := range cs {
		if g.KnownAccount {
			return true
		}
	}
	return false
}

// What a platform client made of a user or a client is known to it: a password, a code, a secret. Such a
// thing is lent. It must not outlive a promotion, which would give the platform client what only the
// machine gives.

// isPlatforms reports whether what is done with ctx is done by a platform client.
func isPlatforms(ctx context.Context) bool {
	by, _ := ByOf(ctx)
	return by.Actor.ClientID != ""
}

// laterOf returns what is still to be checked by the further transactions of a change. The
// revision has changed by its first.
func laterOf(guards checks) checks {
	rest := slices.Clone(guards)
	for i := range rest {
		rest[i].If = nil
	}
	return rest
}
