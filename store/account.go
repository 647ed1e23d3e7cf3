package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
)

// Account owns resources and events; every user acts for one.
type Account struct {
	ID        string
	Name      string // for people; "" when nobody gave one
	CreatedAt time.Time

	// erasedSince is set while the account is being erased: nothing may be
	// recorded into it any more.
	erasedSince time.Time
}

// DefaultAccount is the account of a user for whom none is named.
const DefaultAccount = "default"

const accountRecord = 1

const accountSizeMax = 64

func checkAccountID(id string) error {
	if isTag(id, accountSizeMax) && !hasUpper(id) && id[0] != '_' && id[0] != '-' {
		return nil
	}
	return invalid("account", "use a name such as acct_larkspur", "an account id has 1 to 64 characters of a-z, 0-9, _ and -, the first a letter or digit")
}

// CreateAccount makes an account with a name for people. Errors: *InvalidError,
// ErrExists.
func (s *Store) CreateAccount(ctx context.Context, id, name string) (Account, error) {
	if err := errors.Join(checkAccountID(id), checkName("name", name, true)); err != nil {
		return Account{}, err
	}
	a := Account{ID: id, Name: name, CreatedAt: s.Now()}
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		_, err := tx.Get(accountKey(id))
		if err == nil {
			return ErrExists
		}
		if !isAbsent(err) {
			return err
		}
		return writeAccount(tx, a)
	})
	if err != nil {
		return Account{}, fmt.Errorf("create account: %w", err)
	}
	return a, nil
}

// ensureAccount makes the account within tx when it does not exist. It refuses
// with ErrConflict one that is being erased.
func (s *Store) ensureAccount(tx kv.Txn, id string) error {
	if err := checkAccountID(id); err != nil {
		return err
	}
	err := openAccount(tx, id)
	if errors.Is(err, ErrNotFound) {
		return writeAccount(tx, Account{ID: id, CreatedAt: s.Now()})
	}
	return err
}

// openAccount makes sure that the account may be recorded into. Errors:
// ErrNotFound, and ErrConflict for one that is being erased.
func openAccount(tx kv.Txn, id string) error {
	a, err := readAccount(tx, id)
	if err != nil {
		return err
	}
	if !a.erasedSince.IsZero() {
		return fmt.Errorf("account is being erased: %w", ErrConflict)
	}
	return nil
}

// FindAccount returns the account with that id. Errors: ErrNotFound.
func (s *Store) FindAccount(ctx context.Context, id string) (a Account, err error) {
	if checkAccountID(id) != nil {
		return Account{}, fmt.Errorf("find account: %w", ErrNotFound)
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

// ListAccounts returns at most limit accounts with ids after the one given.
func (s *Store) ListAccounts(ctx context.Context, after string, limit int) ([]Account, error) {
	return list(ctx, s.db, newKey(tagAccount), after, limit, func(k, v []byte) (Account, error) {
		id, _ := cutString(k)
		return decodeAccount(id, v)
	})
}

// DeleteAccount erases an account: its resources, its events, and then itself.
// It refuses with ErrConflict while a user still acts for it, since the user
// would go on recording into it; from then on nothing is recorded into it.
// Erasing runs in batches; one that was cut short is finished by calling it
// again. Errors: ErrNotFound, ErrConflict.
func (s *Store) DeleteAccount(ctx context.Context, id string) error {
	// The mark comes before the look at the users: whoever is made after it is
	// refused, and whoever was made before it is seen.
	if err := s.markErased(ctx, id, s.Now()); err != nil {
		return fmt.Errorf("delete account: %w", err)
	}
	used, err := s.accountIsUsed(ctx, id)
	if err == nil && used {
		err = errors.Join(ErrConflict, s.markErased(ctx, id, time.Time{}))
	}
	if err != nil {
		return fmt.Errorf("delete account: %w", err)
	}
	owned, err := s.owned(ctx, id)
	if err == nil {
		err = s.deleteAll(ctx, owned...)
	}
	if err != nil {
		return fmt.Errorf("delete account: %w", err)
	}
	if err := s.db.Update(ctx, func(tx kv.Txn) error { return tx.Delete(accountKey(id)) }); err != nil {
		return fmt.Errorf("delete account: %w", err)
	}
	return nil
}

// owned returns where all that is an account's lies, in the order in which it is
// to be removed. An event goes before none of that by which it is found, since
// retention, which may come between, looks for events and drops the parts that
// have none; and the head, which tells where the parts are, goes last.
func (s *Store) owned(ctx context.Context, id string) (owned []kv.Range, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		head, err := readEventHead(r, id)
		if err != nil {
			return err
		}
		owned = nil
		for _, tag := range []byte{tagEventType, tagEventResource, tagEvent} {
			for index := range len(head.parts) + 1 {
				owned = append(owned, head.parts.at(index).append(nil, id, tag).all())
			}
		}
		for _, tag := range []byte{tagEventForeign, tagKnownType, tagResource, tagEventHead} {
			owned = append(owned, newKey(tag).str(id).all())
		}
		return nil
	})
	return owned, err
}

// markErased says since when the account is being erased; the zero time takes
// it back.
func (s *Store) markErased(ctx context.Context, id string, since time.Time) error {
	if checkAccountID(id) != nil {
		return ErrNotFound
	}
	return s.db.Update(ctx, func(tx kv.Txn) error {
		a, err := readAccount(tx, id)
		if err != nil {
			return err
		}
		a.erasedSince = since
		return writeAccount(tx, a)
	})
}

const usersPageMax = 500 // users read in one View

func (s *Store) accountIsUsed(ctx context.Context, id string) (bool, error) {
	after := ""
	for {
		users, err := s.ListUsers(ctx, after, usersPageMax)
		if err != nil || len(users) == 0 {
			return false, err
		}
		for _, u := range users {
			if u.Account == id {
				return true, nil
			}
		}
		after = users[len(users)-1].Canonical
	}
}

func readAccount(r kv.Reader, id string) (Account, error) {
	v, err := r.Get(accountKey(id))
	if err != nil {
		return Account{}, found(err)
	}
	return decodeAccount(id, v)
}

func writeAccount(tx kv.Txn, a Account) error {
	return tx.Set(accountKey(a.ID), encodeAccount(a), time.Time{})
}

func encodeAccount(a Account) []byte {
	e := newEncoder(accountRecord)
	e.str(a.Name)
	e.time(a.CreatedAt)
	e.time(a.erasedSince)
	return e.b
}

func decodeAccount(id string, v []byte) (Account, error) {
	d := newDecoder("account", accountRecord, v)
	a := Account{ID: id, Name: d.str(), CreatedAt: d.time(), erasedSince: d.time()}
	return a, d.done()
}

// list reads a page of the records whose keys are prefix and one text, in the
// order of that text, beginning after the one given ("" for the first).
func list[T any](ctx context.Context, db kv.DB, prefix key, after string, limit int, decode func(k, v []byte) (T, error)) (page []T, err error) {
	lo := prefix
	if after != "" {
		lo = append(append(key(nil), prefix...).str(after), 0)
	}
	r := prefix.from(lo)
	r.Limit = limit
	err = db.View(ctx, func(rd kv.Reader) error {
		for k, v := range rd.Scan(r) {
			item, err := decode(k[len(prefix):], v)
			if err != nil {
				return err
			}
			page = append(page, item)
		}
		return nil
	})
	return page, err
}
