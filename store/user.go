package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/text/secure/precis"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// User is a person who signs in and acts for one account.
type User struct {
	ID         secret.ID
	Username   string // as it was given, for showing
	Canonical  string // as names are compared: RFC 8265 UsernameCaseMapped
	Account    string
	DisabledAt time.Time // zero while the user may sign in
	CreatedAt  time.Time
	Generation uint64 // carried by sessions, codes and tokens; raised to end them all

	password string // PHC string
}

// Subject is the user's id as it goes on the wire.
func (u User) Subject() string {
	return string(secret.AppendCrockford([]byte("usr_"), u.ID))
}

const (
	userRecord      = 1
	usernameSizeMax = 128 // bytes, before and after mapping
)

// CanonicalUsername returns the form in which names are compared: `BOB`, `bob`
// and the decomposed spelling of either are one user (RFC 8265 §3.3).
func CanonicalUsername(name string) (string, error) {
	const hint = "use letters, digits and signs such as . - _ @, without spaces"
	if name == "" || len(name) > usernameSizeMax {
		return "", invalid("username", hint, "a username has 1 to %d bytes", usernameSizeMax)
	}
	canonical, err := precis.UsernameCaseMapped.String(name)
	if err != nil || canonical == "" || len(canonical) > usernameSizeMax {
		return "", invalid("username", hint, "the username holds characters that RFC 8265 does not allow in one")
	}
	return canonical, nil
}

// CreateUser makes a user with a password; the account is made if there is none
// of that id. Errors: *InvalidError, ErrExists, ErrBusy.
func (s *Store) CreateUser(ctx context.Context, username, account, password string) (User, error) {
	canonical, err := CanonicalUsername(username)
	if err = errors.Join(err, checkAccountID(account), CheckPassword(password)); err != nil {
		return User{}, err
	}
	hash, err := s.hasher.Hash(ctx, password)
	if err != nil {
		return User{}, fmt.Errorf("create user: %w", err)
	}
	return s.createUser(ctx, User{Username: username, Canonical: canonical, Account: account, password: hash})
}

// CreateFixedUser is CreateUser with a password that the caller has hashed, once
// and for all: for the demo of dev, whose password everybody knows. Errors:
// *InvalidError, ErrExists.
func (s *Store) CreateFixedUser(ctx context.Context, username, account, hash string) (User, error) {
	canonical, err := CanonicalUsername(username)
	if err = errors.Join(err, checkAccountID(account), secret.CheckPasswordHash(hash)); err != nil {
		return User{}, err
	}
	return s.createUser(ctx, User{Username: username, Canonical: canonical, Account: account, password: hash})
}

func (s *Store) createUser(ctx context.Context, u User) (User, error) {
	u.ID, u.CreatedAt = secret.NewID(), s.Now()
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		_, err := tx.Get(userNameKey(u.Canonical))
		if err == nil {
			return ErrExists
		}
		if !isAbsent(err) {
			return err
		}
		if err := s.ensureAccount(tx, u.Account); err != nil {
			return err
		}
		if err := tx.Set(userNameKey(u.Canonical), u.ID[:], time.Time{}); err != nil {
			return err
		}
		return writeUser(tx, u)
	})
	if err != nil {
		return User{}, fmt.Errorf("create user: %w", err)
	}
	return u, nil
}

// FindUser returns the user of that name in any spelling. Errors: ErrNotFound.
func (s *Store) FindUser(ctx context.Context, username string) (u User, err error) {
	canonical, err := CanonicalUsername(username)
	if err != nil {
		return User{}, fmt.Errorf("find user: %w", ErrNotFound)
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		if u, err = readUserByName(r, canonical); isAbsent(err) {
			return refuseAbsent(r, standInUser)
		}
		return err
	})
	if err != nil {
		return User{}, fmt.Errorf("find user: %w", err)
	}
	return u, nil
}

// ListUsers returns at most limit users with canonical names after the one given.
func (s *Store) ListUsers(ctx context.Context, after string, limit int) (users []User, err error) {
	prefix := newKey(tagUserName)
	ids, err := list(ctx, s.db, prefix, after, limit, func(_, v []byte) (secret.ID, error) { return userID(v) })
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = userKey(id)
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		users = users[:0]
		for i, v := range r.GetMany(keys) {
			u, err := decodeUser(ids[i], v)
			if err != nil {
				return err
			}
			users = append(users, u)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	return users, nil
}

// AuthenticateUser returns the user of that name when the password is right. It
// costs one password hash whoever is named, outside any transaction. A hash
// under older parameters is renewed on the way. Errors: ErrMismatch for an
// unknown name, a wrong password and a disabled user alike; ErrBusy.
func (s *Store) AuthenticateUser(ctx context.Context, username, password string) (User, error) {
	if err := s.waitForUsers(ctx); err != nil {
		return User{}, err
	}
	if len(password) > secret.PasswordSizeMax { // no password is that long: refused before hashing, for every name
		return User{}, fmt.Errorf("authenticate user: %w", ErrMismatch)
	}
	u, err := s.FindUser(ctx, username)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return User{}, err
	}
	match, renew, err := s.hasher.Verify(ctx, u.password, password)
	if err != nil {
		return User{}, fmt.Errorf("authenticate user: %w", err)
	}
	if !match || !u.DisabledAt.IsZero() {
		return User{}, fmt.Errorf("authenticate user: %w", ErrMismatch)
	}
	if renew {
		u = s.renewPassword(ctx, u, password)
	}
	return u, nil
}

func (s *Store) waitForUsers(ctx context.Context) error {
	if s.usersReady == nil {
		return nil
	}
	select {
	case <-s.usersReady:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// DisableUser refuses a user's sign-ins and ends sessions, codes and tokens. To
// do it twice is no error. Errors: ErrNotFound.
func (s *Store) DisableUser(ctx context.Context, username string) (User, error) {
	return s.changeUser(ctx, username, func(u *User) error {
		if u.DisabledAt.IsZero() {
			u.DisabledAt = s.Now()
			u.Generation++
		}
		return nil
	})
}

// EnableUser lets a user sign in again. It revives nothing. Errors: ErrNotFound.
func (s *Store) EnableUser(ctx context.Context, username string) (User, error) {
	return s.changeUser(ctx, username, func(u *User) error {
		u.DisabledAt = time.Time{}
		return nil
	})
}

func (s *Store) changeUser(ctx context.Context, username string, change func(*User) error) (u User, err error) {
	canonical, err := CanonicalUsername(username)
	if err != nil {
		return User{}, fmt.Errorf("change user: %w", ErrNotFound)
	}
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		if u, err = readUserByName(tx, canonical); err != nil {
			return err
		}
		if err := change(&u); err != nil {
			return err
		}
		return writeUser(tx, u)
	})
	if err != nil {
		return User{}, fmt.Errorf("change user: %w", err)
	}
	return u, nil
}

// DeleteUser removes a user. Its tokens, codes and sessions die with the
// record; what is left of them is cleared away behind it. Errors: ErrNotFound.
func (s *Store) DeleteUser(ctx context.Context, username string) error {
	u, err := s.FindUser(ctx, username)
	if err != nil {
		return fmt.Errorf("delete user: %w", err)
	}
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		if _, err := readUser(tx, u.ID); err != nil {
			return err
		}
		return deleteKeys(tx, userKey(u.ID), userNameKey(u.Canonical))
	})
	if err == nil {
		err = s.deleteIndexed(ctx, userSessionsKey(u.ID), func(rest []byte) [][]byte {
			return [][]byte{append(newKey(tagSession), rest...)}
		})
	}
	if err == nil {
		err = s.deleteFamilies(ctx, userFamiliesKey(u.ID))
	}
	if err != nil {
		return fmt.Errorf("delete user: %w", err)
	}
	return nil
}

// deleteIndexed removes an index and what it points to: for each key under
// prefix, the keys that follow from the rest of it, and the key itself. It goes
// on behind each batch, as deleteAll does.
func (s *Store) deleteIndexed(ctx context.Context, prefix key, pointed func(rest []byte) [][]byte) error {
	r := prefix.all()
	r.KeysOnly, r.Limit = true, deleteBatchMax/4
	for {
		var batch [][]byte
		err := s.db.View(ctx, func(rd kv.Reader) error {
			for k := range rd.Scan(r) {
				k = slices.Clone(k)
				batch = append(append(batch, pointed(k[len(prefix):])...), k)
			}
			return nil
		})
		if err != nil || len(batch) == 0 {
			return err
		}
		if err := s.db.Update(ctx, func(tx kv.Txn) error { return deleteKeys(tx, batch...) }); err != nil {
			return err
		}
		r.Lo = append(batch[len(batch)-1], 0)
	}
}

func readUserByName(r kv.Reader, canonical string) (User, error) {
	v, err := r.Get(userNameKey(canonical))
	if err != nil {
		return User{}, found(err)
	}
	id, err := userID(v)
	if err != nil {
		return User{}, err
	}
	return readUser(r, id)
}

func userID(v []byte) (id secret.ID, err error) {
	if len(v) != len(id) {
		return id, fmt.Errorf("%w: user name record: has %d bytes", ErrCorrupt, len(v))
	}
	return secret.ID(v), nil
}

func readUser(r kv.Reader, id secret.ID) (User, error) {
	v, err := r.Get(userKey(id))
	if err != nil {
		return User{}, found(err)
	}
	return decodeUser(id, v)
}

func writeUser(tx kv.Txn, u User) error {
	return tx.Set(userKey(u.ID), encodeUser(u), time.Time{})
}

func encodeUser(u User) []byte {
	e := newEncoder(userRecord)
	e.uint(u.Generation)
	e.time(u.DisabledAt)
	e.str(u.Username)
	e.str(u.Canonical)
	e.str(u.Account)
	e.str(u.password)
	e.time(u.CreatedAt)
	return e.b
}

func decodeUser(id secret.ID, v []byte) (User, error) {
	d := newDecoder("user", userRecord, v)
	u := d.userHead(id)
	u.Canonical, u.Account, u.password, u.CreatedAt = d.str(), d.str(), d.str(), d.time()
	return u, d.done()
}

// decodeUserHead reads the fields that every request depends on alone.
func decodeUserHead(id secret.ID, v []byte) (User, error) {
	d := newDecoder("user", userRecord, v)
	u := d.userHead(id)
	return u, d.err
}

// userHead reads the fields that every request depends on; see clientHead.
func (d *decoder) userHead(id secret.ID) User {
	return User{ID: id, Generation: d.uint(), DisabledAt: d.time(), Username: d.str()}
}
