package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// Account owns resources and events; every user acts for one.
type Account struct {
	ID         string
	Name       string // for people; may be ""
	CreatedAt  time.Time
	DisabledAt time.Time // zero while its users may sign in; operators always may
	Generation uint64    // sessions, codes and tokens carry it; raising it invalidates them all
	Revision   uint64    // rises with every change

	// erasedSince is set while the account is being erased. Nothing may be recorded
	// into it then.
	erasedSince time.Time
}

// DefaultAccount is the account of a user created without one.
const DefaultAccount = "default"

const accountRecord = 1

// CreateAccount creates an account with a name for people. Errors: *InvalidError,
// ErrExists.
func (s *Store) CreateAccount(ctx context.Context, id, name string) (Account, error) {
	if err := errors.Join(record.CheckAccountID(id), checkName("name", name, true)); err != nil {
		return Account{}, err
	}
	var a Account
	line := s.change(ctx, reasonAccountCreated)
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		_, err := tx.Get(record.AccountKey(id))
		if err == nil {
			return record.ErrExists
		}
		if !record.IsAbsent(err) {
			return err
		}
		a = s.newAccount(id, name)
		return errors.Join(writeAccount(tx, a), line.ofAccount(tx, id))
	})
	if err != nil {
		return Account{}, fmt.Errorf("create account: %w", err)
	}
	return a, nil
}

const reasonAccountCreated = "account created"

func (s *Store) newAccount(id, name string) Account {
	return Account{ID: id, Name: name, CreatedAt: s.Now(), Generation: secret.NewCount(s.random), Revision: secret.NewCount(s.random)}
}

// PutAccount creates an account, or gives one that exists the name, if one is given. Errors:
// *InvalidError; ErrConflict if it is being erased; those of the guards.
func (s *Store) PutAccount(ctx context.Context, id string, name *string, guards ...Guard) (a Account, created bool, err error) {
	var named string
	set(&named, name)
	if err := errors.Join(record.CheckAccountID(id), checkName("name", named, true)); err != nil {
		return Account{}, false, err
	}
	made, renamed := s.change(ctx, reasonAccountCreated), s.change(ctx, "account renamed")
	err = checks(guards).guarded(s.db).Update(ctx, func(tx kv.Txn) error {
		a, err = openAccount(tx, id)
		if created = errors.Is(err, record.ErrNotFound); created {
			a = s.newAccount(id, named)
			return errors.Join(checks(guards).absent(), writeAccount(tx, a), made.ofAccount(tx, id))
		}
		if err == nil {
			err = checks(guards).account(a)
		}
		if err != nil {
			return err
		}
		was := a
		set(&a.Name, name)
		return saveAccount(tx, was, &a, renamed)
	})
	if err != nil {
		return Account{}, false, fmt.Errorf("put account: %w", err)
	}
	return a, created, nil
}

// DisableAccount disables an account: its users cannot sign in, and their sessions, codes and
// tokens, and the tokens of clients that act for it, become invalid. An operator's sessions do not.
// Its data stays, and can be changed by who acts for all accounts. Nothing is sent to its webhook
// endpoints. It is idempotent. Errors: ErrNotFound; ErrConflict if it is being erased; those of the
// guards.
func (s *Store) DisableAccount(ctx context.Context, id string, guards ...Guard) (Account, error) {
	return s.changeAccount(ctx, id, "account disabled", guards, func(tx kv.Txn, n *webhook.Ending, a *Account) error {
		if !a.DisabledAt.IsZero() {
			return nil
		}
		a.DisabledAt = s.Now()
		a.Generation++
		return n.Look(tx, id)
	})
}

// EnableAccount lets the users of an account sign in again, without their old sessions and tokens.
// Webhook endpoints continue at their cursors. Errors: as DisableAccount.
func (s *Store) EnableAccount(ctx context.Context, id string, guards ...Guard) (Account, error) {
	return s.changeAccount(ctx, id, "account enabled", guards, func(tx kv.Txn, n *webhook.Ending, a *Account) error {
		if a.DisabledAt.IsZero() {
			return nil
		}
		a.DisabledAt = time.Time{}
		return n.Look(tx, id)
	})
}

// RevokeAccount invalidates all that DisableAccount does, and disables the webhook endpoints that
// tokens of users, of clients bound to the account, and for the account alone created: a leaked token
// would otherwise outlive its revocation as a push. Users may sign in again. Errors: as
// DisableAccount.
func (s *Store) RevokeAccount(ctx context.Context, id string, guards ...Guard) (Account, error) {
	return s.changeAccount(ctx, id, "all of the account revoked", guards, func(tx kv.Txn, n *webhook.Ending, a *Account) error {
		a.Generation++
		return n.InIf(tx, id, func(o webhook.Owner) (bool, error) { return isOfAccount(tx, id, o) })
	})
}

func (s *Store) changeAccount(ctx context.Context, id, reason string, guards checks,
	change func(kv.Txn, *webhook.Ending, *Account) error) (a Account, err error) {
	if record.CheckAccountID(id) != nil {
		return Account{}, fmt.Errorf("change account: %w", record.ErrNotFound)
	}
	line := s.change(ctx, reason)
	err = s.revoke(ctx, kv.Ruling, line.By, secret.NewTail(s.random), func(tx kv.Txn, n *webhook.Ending) error {
		if err = guards.begin(tx); err == nil {
			a, err = openAccount(tx, id)
		}
		if err == nil {
			err = guards.account(a)
		}
		was := a
		if err == nil {
			err = change(tx, n, &a)
		}
		if err != nil {
			return err
		}
		return saveAccount(tx, was, &a, line)
	})
	if err != nil {
		return Account{}, fmt.Errorf("change account: %w", err)
	}
	return a, nil
}

// ensureAccount creates the account within tx if needed. It returns ErrConflict if the
// account is being erased.
func (s *Store) ensureAccount(tx kv.Txn, id string) error {
	_, err := s.accountFor(tx, id, nil)
	return err
}

// accountFor returns the account of what is created within tx, and creates it if needed and the
// guards let it. Errors: ErrConflict if it is being erased; ErrUnknownAccount.
func (s *Store) accountFor(tx kv.Txn, id string, guards checks) (Account, error) {
	if err := record.CheckAccountID(id); err != nil {
		return Account{}, err
	}
	a, err := openAccount(tx, id)
	isUnknown := errors.Is(err, record.ErrNotFound)
	switch {
	case guards.wantKnownAccount() && (isUnknown || errors.Is(err, record.ErrConflict)):
		return Account{}, ErrUnknownAccount
	case isUnknown:
		a = s.newAccount(id, "")
		return a, writeAccount(tx, a)
	}
	return a, err
}

// accountOf is accountFor of the account for which a client acts, if any.
func (s *Store) accountOf(tx kv.Txn, c Client, guards checks) error {
	if c.Account == "" {
		return nil
	}
	_, err := s.accountFor(tx, c.Account, guards)
	return err
}

// openAccount returns an account into which events may be recorded. Errors:
// ErrNotFound, and ErrConflict if it is being erased.
func openAccount(r kv.Reader, id string) (Account, error) {
	a, err := readAccount(r, id)
	if err == nil && !a.erasedSince.IsZero() {
		err = fmt.Errorf("account is being erased: %w", record.ErrConflict)
	}
	return a, err
}

// FindAccount returns the account with that id. Errors: ErrNotFound.
func (s *Store) FindAccount(ctx context.Context, id string) (a Account, err error) {
	if record.CheckAccountID(id) != nil {
		return Account{}, fmt.Errorf("find account: %w", record.ErrNotFound)
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		a, err = readAccount(r, id)
		return err
	})
	if err != nil {
		return Account{}, fmt.Errorf("find account: %w", err)
	}
	return a, nil
}

// ListAccounts returns up to limit accounts with ids after the given one.
func (s *Store) ListAccounts(ctx context.Context, after string, limit int) ([]Account, error) {
	return record.List(ctx, s.db, record.NewKey(record.TagAccount), after, limit, func(k, v []byte) (Account, error) {
		id, _ := record.CutString(k)
		return decodeAccount(id, v)
	})
}

// DeleteAccount erases an account: its resources, its events, and finally its record.
// It returns *AccountInUseError while the account has users or clients that act for it: they
// would keep recording, and a later account of that id must not revive them. Afterwards nothing
// can be recorded into it. Erasing runs in batches; call it again after an interruption, or during
// another call, which it joins. Errors: ErrNotFound, also when another call has erased the account
// first; *AccountInUseError; those of the guards, also in between: then the account stays closed.
func (s *Store) DeleteAccount(ctx context.Context, id string, guards ...Guard) error {
	since, err := s.beginErasing(ctx, id, guards)
	if err != nil {
		return fmt.Errorf("delete account: %w", err)
	}
	still := func(r kv.Reader) error {
		if err := checks(guards).begin(r); err != nil {
			return err
		}
		return stillErasing(r, id, since)
	}
	db := record.GuardedDB{DB: s.db, Check: still}
	err = s.Webhooks.EndAccount(ctx, id, still)
	var owned []kv.Range
	if err == nil {
		owned, err = s.owned(ctx, id)
	}
	if err == nil {
		err = record.DeleteAll(ctx, db, owned...)
	}
	if err == nil {
		err = s.Webhooks.SweepPurged(ctx, id)
	}
	if err == nil {
		err = s.Events.DropCounts(ctx, id, still)
	}
	if err != nil {
		return fmt.Errorf("delete account: %w", err)
	}
	line := s.change(ctx, "account deleted")
	err = record.UpdateAs(ctx, db, kv.Ruling, func(tx kv.Txn) error {
		return errors.Join(eventlog.CountErased(tx), tx.Delete(record.AccountKey(id)), line.ofAccount(tx, id))
	})
	if err != nil {
		return fmt.Errorf("delete account: %w", err)
	}
	return nil
}

// isErasing reports whether an account is being erased.
func isErasing(r kv.Reader, id string) (bool, error) {
	a, err := readAccount(r, id)
	return !a.erasedSince.IsZero(), record.GoneIsNil(err)
}

// stillErasing returns ErrNotFound once the account is no longer the one being erased:
// another deletion may have finished, and a new account may have that id.
func stillErasing(r kv.Reader, id string, since time.Time) error {
	a, err := readAccount(r, id)
	if err == nil && !a.erasedSince.Equal(since) {
		err = fmt.Errorf("another deletion erased it: %w", record.ErrNotFound)
	}
	return err
}

// AccountInUseError means that an account has users, or clients that act for it.
type AccountInUseError struct{ Clients bool } // and no users

func (e *AccountInUseError) Error() string {
	if e.Clients {
		return "the account has clients that act for it"
	}
	return "the account has users"
}

// Is makes errors.Is(err, record.ErrConflict) true.
func (e *AccountInUseError) Is(target error) bool { return target == record.ErrConflict }

// beginErasing closes an account without users and clients to writes and returns since when it is
// closed. It looks for them before, so that an account in use stays open, and again
// after: one created since is seen, and one created later is refused.
func (s *Store) beginErasing(ctx context.Context, id string, guards checks) (since time.Time, err error) {
	err = s.mayErase(ctx, id, guards)
	if err == nil {
		err = s.mustBeUnused(ctx, id)
	}
	if err == nil {
		if since, err = s.setErasing(ctx, id, s.Now(), guards); err == nil {
			err = s.mustBeUnused(ctx, id)
		}
	}
	if inUse := (*AccountInUseError)(nil); errors.As(err, &inUse) {
		// Also what a killed attempt left behind.
		_, openErr := s.setErasing(context.WithoutCancel(ctx), id, time.Time{}, nil)
		err = errors.Join(err, openErr)
	}
	return since, err
}

// mayErase checks the guards before the account is searched: whoever names a version that is gone
// learns that first. They count in setErasing.
func (s *Store) mayErase(ctx context.Context, id string, guards checks) error {
	if record.CheckAccountID(id) != nil {
		return record.ErrNotFound
	}
	return s.db.View(ctx, func(r kv.Reader) error {
		if err := guards.begin(r); err != nil {
			return err
		}
		a, err := readAccount(r, id)
		if err != nil {
			return err
		}
		return guards.account(a)
	})
}

// owned returns the key ranges of an account in the order of removal. Events go after
// their lists: retention may run in between, looks only for events, and drops empty
// segments. The head goes last because it lists the segments.
func (s *Store) owned(ctx context.Context, id string) (owned []kv.Range, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		head, err := eventlog.ReadHead(r, id)
		if err != nil {
			return err
		}
		owned = nil
		for _, tag := range []byte{eventlog.ListByType, eventlog.ListByResource, eventlog.ListAll} {
			for index := range len(head.Segments) + 1 {
				owned = append(owned, head.Segments.At(index).Append(nil, id, tag).All())
			}
		}
		for _, tag := range []byte{record.TagEventForeign, record.TagKnownType, record.TagResource, record.TagEventHead} {
			owned = append(owned, record.NewKey(tag).Str(id).All())
		}
		return nil
	})
	return owned, err
}

// setErasing sets since when the account is being erased, and returns it. One that is
// being erased keeps its time; the zero time cancels.
func (s *Store) setErasing(ctx context.Context, id string, since time.Time, guards checks) (time.Time, error) {
	if record.CheckAccountID(id) != nil {
		return time.Time{}, record.ErrNotFound
	}
	var a Account
	line := s.change(ctx, "account deletion begun")
	if since.IsZero() {
		line = s.change(ctx, "account deletion cancelled")
	}
	err := record.UpdateAs(ctx, guards.guarded(s.db), kv.Ruling, func(tx kv.Txn) (err error) {
		if a, err = readAccount(tx, id); err == nil {
			err = guards.account(a)
		}
		if err != nil || since.IsZero() == a.erasedSince.IsZero() {
			return err
		}
		a.erasedSince = since
		return errors.Join(writeAccount(tx, a), line.ofAccount(tx, id))
	})
	return a.erasedSince, err
}

const clientsPageMax = 500 // read in one View

// mustBeUnused returns *AccountInUseError if the account has users, or clients that act for it.
func (s *Store) mustBeUnused(ctx context.Context, id string) error {
	if record.CheckAccountID(id) != nil {
		return record.ErrNotFound
	}
	users := record.AccountUsersKey(id).All()
	users.KeysOnly, users.Limit = true, 1
	err := s.db.View(ctx, func(r kv.Reader) error {
		for range r.Scan(users) {
			return &AccountInUseError{}
		}
		return nil
	})
	for after := ""; err == nil; {
		var clients []Client
		clients, err = s.ListClients(ctx, after, clientsPageMax)
		if slices.ContainsFunc(clients, func(c Client) bool { return c.Account == id }) {
			return &AccountInUseError{Clients: true}
		}
		if len(clients) < clientsPageMax {
			break
		}
		after = clients[len(clients)-1].ID
	}
	return err
}

// isOpenTo reports whether what carries a generation of the account is valid. It never is if the
// account does not exist.
func (a Account) isOpenTo(generation uint64) bool {
	return a.ID != "" && a.erasedSince.IsZero() && a.DisabledAt.IsZero() && a.Generation == generation
}

// head returns what decodeAccountHead reads.
func (a Account) head() Account {
	return Account{ID: a.ID, Generation: a.Generation, DisabledAt: a.DisabledAt, erasedSince: a.erasedSince}
}

func readAccountHead(r kv.Reader, id string) (Account, error) {
	return record.Read(r, record.AccountKey(id), id, decodeAccountHead)
}

func readAccount(r kv.Reader, id string) (Account, error) {
	return record.Read(r, record.AccountKey(id), id, decodeAccount)
}

func writeAccount(tx kv.Txn, a Account) error {
	return tx.Set(record.AccountKey(a.ID), encodeAccount(a), time.Time{})
}

// saveAccount writes an account that was changed, under a new revision, and the audit line. Without
// a change it does nothing.
func saveAccount(tx kv.Txn, was Account, a *Account, line changeLine) error {
	if *a == was {
		return nil
	}
	a.Revision++
	return errors.Join(writeAccount(tx, *a), line.ofAccount(tx, a.ID))
}

func encodeAccount(a Account) []byte {
	return record.NewEncoder(accountRecord).Uint(a.Generation).Time(a.DisabledAt).Time(a.erasedSince).Uint(a.Revision).Str(a.Name).Time(a.CreatedAt).B
}

func decodeAccount(id string, v []byte) (Account, error) {
	d := record.NewDecoder("account", accountRecord, v)
	a := decodeAccountFields(&d, id)
	a.Revision, a.Name, a.CreatedAt = d.Uint(), d.Str(), d.Time()
	return a, d.Done()
}

func decodeAccountHead(id string, v []byte) (Account, error) {
	d := record.NewDecoder("account", accountRecord, v)
	a := decodeAccountFields(&d, id)
	return a, d.Err
}

// decodeAccountFields reads the fields that every request needs; see decodeClientFields.
func decodeAccountFields(d *record.Decoder, id string) Account {
	return Account{ID: id, Generation: d.Uint(), DisabledAt: d.Time(), erasedSince: d.Time()}
}
