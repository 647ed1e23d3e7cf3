package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/secure/precis"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// User is a person who signs in and acts for one account.
type User struct {
	ID         secret.ID
	Username   string // as given, for display
	Canonical  string // for comparison: RFC 8265 UsernameCaseMapped
	Account    string
	DisabledAt time.Time // zero while the user may sign in
	CreatedAt  time.Time
	Generation uint64 // sessions, codes and tokens carry it; raising it invalidates them all
	Operator   bool   // may use the desk; gives no scope and reaches no token

	password string // PHC string, or "" before a first code is redeemed
	code     userCode
}

const subjectPrefix = "usr_"

// Subject is the user's id in API responses.
func (u User) Subject() string {
	if u.ID.IsZero() {
		return ""
	}
	return string(secret.AppendCrockford([]byte(subjectPrefix), u.ID))
}

const (
	userRecord      = 1
	usernameSizeMax = 128 // bytes, before and after mapping
	usernameHint    = "use letters, digits and signs such as . - _ @, without spaces"
)

// CanonicalUsername returns the form of a name for comparison: `BOB`, `bob` and their
// decomposed spellings are one user (RFC 8265 §3.3). White space around a name is
// ignored: keyboards and copied text add it, and no name can contain it.
func CanonicalUsername(name string) (string, error) {
	if name = strings.TrimSpace(name); name == "" || len(name) > usernameSizeMax {
		return "", record.Invalid("username", usernameHint, "a username has 1 to %d bytes", usernameSizeMax)
	}
	canonical, err := precis.UsernameCaseMapped.String(name)
	if err != nil || canonical == "" || len(canonical) > usernameSizeMax {
		return "", record.Invalid("username", usernameHint, "the username contains characters that RFC 8265 does not allow")
	}
	return canonical, nil
}

// Role is what a user may do besides acting for an account.
type Role byte

// Operator is the role of a user who may use the desk.
const Operator Role = 1

// CreateUser creates a user with a password, and the account if needed. Errors:
// *InvalidError, ErrExists, ErrBusy.
func (s *Store) CreateUser(ctx context.Context, username, account, password string, roles ...Role) (User, error) {
	if err := CheckPassword(password); err != nil {
		_, nameErr := CanonicalUsername(username)
		return User{}, errors.Join(nameErr, record.CheckAccountID(account), err)
	}
	return s.createUserWith(ctx, username, account, password, false, roles...)
}

func (s *Store) createUserWith(ctx context.Context, username, account, password string, fixture bool, roles ...Role) (User, error) {
	u, err := newUser(username, account, roles)
	if err != nil {
		return User{}, err
	}
	if u.password, err = s.hasher.Hash(ctx, secret.Caller{}, password); err != nil {
		return User{}, fmt.Errorf("create user: %w", err)
	}
	return s.createUser(ctx, u, fixture)
}

// newUser returns a user without a password. Errors: *InvalidError.
func newUser(username, account string, roles []Role) (User, error) {
	canonical, err := CanonicalUsername(username)
	if err = errors.Join(err, record.CheckAccountID(account)); err != nil {
		return User{}, err
	}
	return User{Username: strings.TrimSpace(username), Canonical: canonical, Account: account, Operator: slices.Contains(roles, Operator)}, nil
}

// CreateFixedUser is CreateUser with a password hash, for the demo of dev, whose
// password is public. Errors: *InvalidError, ErrExists.
func (s *Store) CreateFixedUser(ctx context.Context, username, account, hash string, roles ...Role) (User, error) {
	u, err := newUser(username, account, roles)
	if err = errors.Join(err, secret.CheckPasswordHash(hash)); err != nil {
		return User{}, err
	}
	u.password = hash
	return s.createUser(ctx, u, false)
}

func (s *Store) createUser(ctx context.Context, u User, fixture bool) (User, error) {
	if !hasVisible(u.Username) {
		return User{}, record.Invalid("username", usernameHint, "the username has no visible character")
	}
	if IsSubject(u.Canonical) {
		return User{}, record.Invalid("username", "give a name, not an id", "the username has the form of a user's id")
	}
	u.ID, u.CreatedAt = secret.NewID(s.random), s.Now()
	created, code := s.change(ctx, "user created"), s.change(ctx, "")
	if !u.code.expiresAt.IsZero() {
		code = s.change(ctx, reasonCodeMade)
	}
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		_, err := tx.Get(record.UserNameKey(u.Canonical))
		if err == nil {
			return record.ErrExists
		}
		if !record.IsAbsent(err) {
			return err
		}
		if err := s.ensureAccount(tx, u.Account); err != nil {
			return err
		}
		if fixture {
			if err := s.markFixture(tx); err != nil {
				return err
			}
		}
		if err := tx.Set(record.UserNameKey(u.Canonical), u.ID[:], time.Time{}); err != nil {
			return err
		}
		return errors.Join(writeUser(tx, u), created.ofUser(tx, u), code.ofUser(tx, u))
	})
	if err != nil {
		return User{}, fmt.Errorf("create user: %w", err)
	}
	return u, nil
}

// FindUser returns the user with that name in any spelling. Errors: ErrNotFound.
func (s *Store) FindUser(ctx context.Context, username string) (u User, err error) {
	canonical, err := CanonicalUsername(username)
	if err != nil {
		return User{}, fmt.Errorf("find user: %w", record.ErrNotFound)
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		if u, err = readUserByName(r, canonical); record.IsAbsent(err) {
			return refuseUser(r)
		}
		return err
	})
	if err != nil {
		return User{}, fmt.Errorf("find user: %w", err)
	}
	return u, nil
}

// IsSubject reports whether text has the form of a Subject. No new user has such a name.
func IsSubject(text string) bool {
	_, ok := numberNamed(subjectPrefix, text)
	return ok
}

// FindUserBySubject returns the user with that Subject. Errors: ErrNotFound.
func (s *Store) FindUserBySubject(ctx context.Context, subject string) (u User, err error) {
	id, ok := numberNamed(subjectPrefix, subject)
	if !ok {
		return User{}, fmt.Errorf("find user by subject: %w", record.ErrNotFound)
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		u, err = readUser(r, id)
		return err
	})
	if err != nil {
		return User{}, fmt.Errorf("find user by subject: %w", err)
	}
	return u, nil
}

// ListUsers returns up to limit users with canonical names after the given one.
func (s *Store) ListUsers(ctx context.Context, after string, limit int) (users []User, err error) {
	prefix := record.NewKey(record.TagUserName)
	ids, err := record.List(ctx, s.db, prefix, after, limit, func(_, v []byte) (secret.ID, error) { return userID(v) })
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	keys := make([][]byte, len(ids))
	for i, id := range ids {
		keys[i] = record.UserKey(id)
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

// AuthenticateUser returns the user with that name if the password is right. Every
// call costs one password hash, outside any transaction. A hash with older parameters
// is renewed. Errors: ErrMismatch for an unknown name, a wrong password or a disabled
// user; ErrBusy.
func (s *Store) AuthenticateUser(ctx context.Context, c secret.Caller, username, password string) (User, error) {
	// No password is that long. Refused before hashing for every name.
	if min(len(password), len(secret.PreparePassword(password))) > secret.PasswordSizeMax {
		return User{}, fmt.Errorf("authenticate user: %w", record.ErrMismatch)
	}
	u, err := s.FindUser(ctx, username)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return User{}, err
	}
	match, renew, err := s.hasher.Verify(ctx, c, u.password, password)
	if err != nil {
		return User{}, fmt.Errorf("authenticate user: %w", err)
	}
	if !match || !u.DisabledAt.IsZero() {
		return User{}, fmt.Errorf("authenticate user: %w", record.ErrMismatch)
	}
	if renew {
		u = s.renewPassword(ctx, c, u, password)
	}
	return u, nil
}

// DisableUser disables a user, revokes their sessions, codes and tokens, disables the webhook
// endpoints that these created, and revokes a code for a new password. It is idempotent. Errors:
// ErrNotFound.
func (s *Store) DisableUser(ctx context.Context, username string) (User, error) {
	return s.disableUser(ctx, username, "user disabled")
}

func (s *Store) disableUser(ctx context.Context, username, reason string) (User, error) {
	return s.endUser(ctx, username, reason, func(u *User) {
		if u.DisabledAt.IsZero() {
			u.DisabledAt, u.code = s.Now(), userCode{}
			u.Generation++
		}
	})
}

// EnableUser lets a user sign in again, without their old sessions and tokens. Errors:
// ErrNotFound.
func (s *Store) EnableUser(ctx context.Context, username string) (User, error) {
	return s.changeUser(ctx, username, "user enabled", func(u *User) error {
		u.DisabledAt = time.Time{}
		return nil
	})
}

// PromoteUser makes a user an operator. It is idempotent. Errors: ErrNotFound.
func (s *Store) PromoteUser(ctx context.Context, username string) (User, error) {
	return s.setOperator(ctx, username, "user promoted", true)
}

// DemoteUser makes an operator an ordinary user. It is idempotent. Errors: ErrNotFound.
func (s *Store) DemoteUser(ctx context.Context, username string) (User, error) {
	return s.setOperator(ctx, username, "user demoted", false)
}

func (s *Store) setOperator(ctx context.Context, username, reason string, operator bool) (User, error) {
	return s.changeUser(ctx, username, reason, func(u *User) error {
		u.Operator = operator
		return nil
	})
}

// changeUser is for operators: it may revoke what the user has, even when the disk is full.
// The audit line has the reason.
func (s *Store) changeUser(ctx context.Context, username, reason string, change func(*User) error) (u User, err error) {
	canonical, err := CanonicalUsername(username)
	if err != nil {
		return User{}, fmt.Errorf("change user: %w", record.ErrNotFound)
	}
	line := s.change(ctx, reason)
	err = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error {
		if u, err = readUserByName(tx, canonical); err != nil {
			return err
		}
		if err := change(&u); err != nil {
			return err
		}
		return errors.Join(writeUser(tx, u), line.ofUser(tx, u))
	})
	if err != nil {
		return User{}, fmt.Errorf("change user: %w", err)
	}
	return u, nil
}

// endUser is changeUser for a change that revokes the user's tokens. It also disables the webhook
// endpoints that they created.
func (s *Store) endUser(ctx context.Context, username, reason string, change func(*User)) (u User, err error) {
	canonical, err := CanonicalUsername(username)
	if err != nil {
		return User{}, fmt.Errorf("end user: %w", record.ErrNotFound)
	}
	line := s.change(ctx, reason)
	err = s.revoke(ctx, kv.Ruling, line.By, secret.NewTail(s.random), func(tx kv.Txn, n *webhook.Ending) error {
		if u, err = readUserByName(tx, canonical); err != nil {
			return err
		}
		change(&u)
		return errors.Join(writeUser(tx, u), u.endWebhooks(tx, n), line.ofUser(tx, u))
	})
	if err != nil {
		return User{}, fmt.Errorf("end user: %w", err)
	}
	return u, nil
}

// endWebhooks disables the webhook endpoints that the user's tokens created.
func (u User) endWebhooks(tx kv.Txn, n *webhook.Ending) error {
	return n.In(tx, u.Account, webhook.Owner{User: u.Subject()})
}

// DeleteUser deletes a user, who is disabled first, which revokes their tokens, codes and
// sessions immediately. The user's record is deleted last, so that a failed deletion can be
// repeated. Errors: ErrNotFound.
func (s *Store) DeleteUser(ctx context.Context, username string) error {
	u, err := s.disableUser(ctx, username, "user deletion begun")
	if err == nil {
		err = record.DeleteAll(ctx, s.db, record.UserConsentsKey(u.ID).All())
	}
	if err == nil {
		err = s.deleteIndexed(ctx, record.UserSessionsKey(u.ID), func(rest []byte) [][]byte {
			return [][]byte{append(record.NewKey(record.TagSession), rest...)}
		})
	}
	if err == nil {
		err = s.deleteFamilies(ctx, record.UserFamiliesKey(u.ID))
	}
	if err == nil {
		line := s.change(ctx, "user deleted")
		err = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error {
			if _, err := readUser(tx, u.ID); err != nil {
				return err
			}
			return errors.Join(record.DeleteKeys(tx, record.UserKey(u.ID), record.UserNameKey(u.Canonical), record.SignInKey(u.ID)), line.ofUser(tx, u))
		})
	}
	if err != nil {
		return fmt.Errorf("delete user: %w", err)
	}
	return nil
}

// deleteIndexed deletes an index and what it points to: for each key under prefix, the
// keys that pointed returns for its rest, and the key itself. Like DeleteAll, it
// continues after each batch.
func (s *Store) deleteIndexed(ctx context.Context, prefix record.Key, pointed func(rest []byte) [][]byte) error {
	r := prefix.All()
	r.KeysOnly, r.Limit = true, record.DeleteBatchMax/4
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
		if err := record.UpdateAs(ctx, s.db, kv.Ending, func(tx kv.Txn) error { return record.DeleteKeys(tx, batch...) }); err != nil {
			return err
		}
		r.Lo = append(batch[len(batch)-1], 0)
	}
}

func readUserByName(r kv.Reader, canonical string) (User, error) {
	v, err := r.Get(record.UserNameKey(canonical))
	if err != nil {
		return User{}, record.Found(err)
	}
	id, err := userID(v)
	if err != nil {
		return User{}, err
	}
	return readUser(r, id)
}

func userID(v []byte) (id secret.ID, err error) {
	if len(v) != len(id) {
		return id, fmt.Errorf("%w: user name record: %d bytes long", record.ErrCorrupt, len(v))
	}
	return secret.ID(v), nil
}

func readUser(r kv.Reader, id secret.ID) (User, error) {
	return record.Read(r, record.UserKey(id), id, decodeUser)
}

func writeUser(tx kv.Txn, u User) error {
	return tx.Set(record.UserKey(u.ID), encodeUser(u), time.Time{})
}

func encodeUser(u User) []byte {
	e := record.NewEncoder(userRecord).Uint(u.Generation).Time(u.DisabledAt).Str(u.Username).Str(u.Canonical).
		Str(u.Account).Str(u.password).Time(u.CreatedAt).Bool(u.Operator).Time(u.code.expiresAt)
	if !u.code.expiresAt.IsZero() {
		e.Hash(u.code.hash)
	}
	return e.B
}

func decodeUser(id secret.ID, v []byte) (User, error) {
	d := record.NewDecoder("user", userRecord, v)
	u := decodeUserFields(&d, id)
	u.Canonical, u.Account, u.password, u.CreatedAt = d.Str(), d.Str(), d.Str(), d.Time()
	u.Operator, u.code.expiresAt = d.Bool(), d.Time()
	if !u.code.expiresAt.IsZero() {
		u.code.hash = d.Hash()
	}
	return u, d.Done()
}

func decodeUserHead(id secret.ID, v []byte) (User, error) {
	d := record.NewDecoder("user", userRecord, v)
	u := decodeUserFields(&d, id)
	return u, d.Err
}

// decodeUserFields reads the fields that every request needs; see decodeClientFields.
func decodeUserFields(d *record.Decoder, id secret.ID) User {
	return User{ID: id, Generation: d.Uint(), DisabledAt: d.Time(), Username: d.Str()}
}
