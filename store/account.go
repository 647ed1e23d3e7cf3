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
	"tollhouse/store/webhook"
)

// Account owns resources and events; every user acts for one.
type Account struct {
	ID        string
	Name      string // for people; may be ""
	CreatedAt time.Time

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
	a, line := Account{ID: id, Name: name, CreatedAt: s.Now()}, s.change(ctx, "account created")
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		_, err := tx.Get(record.AccountKey(id))
		if err == nil {
			return record.ErrExists
		}
		if !record.IsAbsent(err) {
			return err
		}
		return errors.Join(writeAccount(tx, a), line.ofAccount(tx, id))
	})
	if err != nil {
		return Account{}, fmt.Errorf("create account: %w", err)
	}
	return a, nil
}

// ensureAccount creates the account within tx if needed. It returns ErrConflict if the
// account is being erased.
func (s *Store) ensureAccount(tx kv.Txn, id string) error {
	if err := record.CheckAccountID(id); err != nil {
		return err
	}
	err := openAccount(tx, id)
	if errors.Is(err, record.ErrNotFound) {
		return writeAccount(tx, Account{ID: id, CreatedAt: s.Now()})
	}
	return err
}

// ensureAccountOf creates the account for which a client acts within tx if needed.
func (s *Store) ensureAccountOf(tx kv.Txn, c Client) error {
	if c.Account == "" {
		return nil
	}
	return s.ensureAccount(tx, c.Account)
}

// openAccount checks that events may be recorded into the account. Errors:
// ErrNotFound, and ErrConflict if it is being erased.
func openAccount(tx kv.Txn, id string) error {
	a, err := readAccount(tx, id)
	if err != nil {
		return err
	}
	if !a.erasedSince.IsZero() {
		return fmt.Errorf("account is being erased: %w", record.ErrConflict)
	}
	return nil
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
// The tokens of clients that act for it are invalidated first.
// It returns ErrConflict while the account has users, because they would keep
// recording; afterwards nothing can be recorded into it. Erasing runs in batches; call
// it again after an interruption, or during another call, which it joins. Errors:
// ErrNotFound, also when another call has erased the account first; ErrConflict.
func (s *Store) DeleteAccount(ctx context.Context, id string) error {
	since, err := s.beginErasing(ctx, id)
	if err != nil {
		return fmt.Errorf("delete account: %w", err)
	}
	still := func(r kv.Reader) error { return stillErasing(r, id, since) }
	db := record.GuardedDB{DB: s.db, Check: still}
	err = errors.Join(s.Webhooks.EndAccount(ctx, id, still), s.releaseClients(ctx, id, still))
	var owned []kv.Range
	if err == nil {
		owned, err = s.owned(ctx, id)
	}
	if err == nil {
		err = record.DeleteAll(ctx, db, owned...)
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

// beginErasing closes an account without users to writes and returns since when it is
// closed. It looks for users before, so that an account in use stays open, and again
// after: a user created since is seen, and one created later is refused.
func (s *Store) beginErasing(ctx context.Context, id string) (since time.Time, err error) {
	err = s.mustBeUnused(ctx, id)
	if err == nil {
		if since, err = s.setErasing(ctx, id, s.Now()); err == nil {
			err = s.mustBeUnused(ctx, id)
		}
	}
	if errors.Is(err, record.ErrConflict) {
		// Also what a killed attempt left behind.
		_, openErr := s.setErasing(context.WithoutCancel(ctx), id, time.Time{})
		err = errors.Join(err, openErr)
	}
	return since, err
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
func (s *Store) setErasing(ctx context.Context, id string, since time.Time) (time.Time, error) {
	if record.CheckAccountID(id) != nil {
		return time.Time{}, record.ErrNotFound
	}
	var a Account
	line := s.change(ctx, "account deletion begun")
	if since.IsZero() {
		line = s.change(ctx, "account deletion cancelled")
	}
	err := record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) (err error) {
		a, err = readAccount(tx, id)
		if err != nil || since.IsZero() == a.erasedSince.IsZero() {
			return err
		}
		a.erasedSince = since
		return errors.Join(writeAccount(tx, a), line.ofAccount(tx, id))
	})
	return a.erasedSince, err
}

const (
	usersPageMax   = 500 // users read in one View
	clientsPageMax = 500
)

// mustBeUnused returns ErrConflict if the account has users.
func (s *Store) mustBeUnused(ctx context.Context, id string) error {
	after := ""
	for {
		users, err := s.ListUsers(ctx, after, usersPageMax)
		if err != nil || len(users) == 0 {
			return err
		}
		if slices.ContainsFunc(users, func(u User) bool { return u.Account == id }) {
			return record.ErrConflict
		}
		after = users[len(users)-1].Canonical
	}
}

// releaseClients takes the account from the clients that act for it, invalidates their
// tokens and disables their webhook endpoints. Only UpdateClient can restore it.
func (s *Store) releaseClients(ctx context.Context, account string, still func(kv.Reader) error) error {
	for after := ""; ; {
		clients, err := s.ListClients(ctx, after, clientsPageMax)
		if err != nil || len(clients) == 0 {
			return err
		}
		for _, c := range clients {
			if after = c.ID; c.Account != account {
				continue
			}
			_, err := s.endClient(ctx, c.ID, "client updated", func(tx kv.Txn, c *Client) (ends webhook.Reason, err error) {
				if c.Account == account {
					c.Account = ""
					c.Generation++
					ends = webhook.AuthorizationEnded
				}
				return ends, still(tx)
			})
			if err != nil && !errors.Is(err, record.ErrNotFound) {
				return err
			}
		}
	}
}

func readAccount(r kv.Reader, id string) (Account, error) {
	return record.Read(r, record.AccountKey(id), id, decodeAccount)
}

func writeAccount(tx kv.Txn, a Account) error {
	return tx.Set(record.AccountKey(a.ID), encodeAccount(a), time.Time{})
}

func encodeAccount(a Account) []byte {
	return record.NewEncoder(accountRecord).Str(a.Name).Time(a.CreatedAt).Time(a.erasedSince).B
}

func decodeAccount(id string, v []byte) (Account, error) {
	d := record.NewDecoder("account", accountRecord, v)
	a := Account{ID: id, Name: d.Str(), CreatedAt: d.Time(), erasedSince: d.Time()}
	return a, d.Done()
}
