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
	Revision   uint64 // rises with every change
	Operator   bool   // may use the desk; gives no scope and reaches no token

	password         string    // as the hasher verifies it, or "" before a first code is redeemed
	importedOn       time.Time // the day on which the hash of another system was imported; zero for ours
	code             userCode
	importedRevision uint64 // the revision that an import wrote, or 0
	lent             bool   // a platform client may know the password
	factors          factors
	factorRevision   uint64 // of the second factor; sign-ins and codes of an earlier one are over

	accountNow Account // the head of the account when the user was read; not in the record
}

// MaySignIn reports whether the user may sign in: not one who is disabled and, operators apart, not
// while the account is.
func (u User) MaySignIn() bool {
	return u.DisabledAt.IsZero() && (u.Operator || u.accountNow.isOpenTo(u.accountNow.Generation))
}

// keeps reports whether a sign-in of those generations of the user and the account is still valid.
func (u User) keeps(generation, accountGeneration uint64) bool {
	return u.MaySignIn() && u.Generation == generation && (u.Operator || u.accountNow.Generation == accountGeneration)
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

// newUsername is CanonicalUsername for a name that is to be a user's. It returns the name as it
// is shown, too. A name with the form of a user's id would be taken for that user.
func newUsername(name string) (shown, canonical string, err error) {
	if canonical, err = CanonicalUsername(name); err != nil {
		return "", "", err
	}
	if IsSubject(canonical) {
		return "", "", record.Invalid("username", "give a name, not an id", "the username has the form of a user's id")
	}
	if shown = strings.TrimSpace(name); !hasVisible(shown) {
		return "", "", record.Invalid("username", usernameHint, "the username has no visible character")
	}
	return shown, canonical, nil
}

// UserSpec describes a user to create, who has a password, the hash of one, a code to set one, or
// neither: then the user waits for a code.
type UserSpec struct {
	Username, Account string
	Password          string         // unless Hash, Code or Waits
	Hash              secret.Foreign // of the password at another system, as Hasher.Wrap returns it
	Code              bool           // make a code with which the user sets a password
	CodeLifetime      time.Duration  // of the code; 0 is [UserCodeLifetime]
	Waits             bool           // make neither
	Operator          bool           // may use the desk
	Caller            secret.Caller  // in whose turn the password is hashed
}

// CreateUser creates a user, and the account if needed, and returns the code if one is to be
// made. Errors: *InvalidError, ErrExists, ErrBusy, those of the guards.
func (s *Store) CreateUser(ctx context.Context, spec UserSpec, guards ...Guard) (User, secret.Token, error) {
	if !spec.Code && !spec.Waits && spec.Hash.Text == "" {
		if err := CheckPassword(spec.Password); err != nil {
			_, _, nameErr := newUsername(spec.Username)
			return User{}, secret.Token{}, errors.Join(nameErr, record.CheckAccountID(spec.Account), err)
		}
	}
	return s.createUser(ctx, spec, false, guards)
}

// CreateFixedUser is CreateUser with a password hash, for the demo of dev, whose
// password is public. Errors: *InvalidError, ErrExists.
func (s *Store) CreateFixedUser(ctx context.Context, spec UserSpec, hash string) (User, error) {
	u, err := newUser(spec)
	if err = errors.Join(err, secret.CheckPasswordHash(hash, false)); err != nil {
		return User{}, err
	}
	u.password = hash
	return s.insertUser(ctx, u, false, nil)
}

func (s *Store) createUser(ctx context.Context, spec UserSpec, fixture bool, guards checks) (User, secret.Token, error) {
	u, err := newUser(spec)
	if err != nil {
		return User{}, secret.Token{}, err
	}
	var code secret.Token
	switch {
	case spec.Code:
		code, u.code, err = s.newUserCode(ctx, spec.CodeLifetime)
	case spec.Hash.Text != "":
		u.setImported(spec.Hash, s.Now())
	case !spec.Waits:
		u.password, err = s.hasher.Hash(ctx, spec.Caller, spec.Password)
		u.lent = isPlatforms(ctx)
	}
	if err != nil {
		return User{}, secret.Token{}, fmt.Errorf("create user: %w", err)
	}
	u, err = s.insertUser(ctx, u, fixture, guards)
	return u, code, err
}

// newUser returns a user without a password. Errors: *InvalidError.
func newUser(spec UserSpec) (User, error) {
	shown, canonical, err := newUsername(spec.Username)
	if err = errors.Join(err, record.CheckAccountID(spec.Account)); err != nil {
		return User{}, err
	}
	return User{Username: shown, Canonical: canonical, Account: spec.Account, Operator: spec.Operator}, nil
}

func (s *Store) insertUser(ctx context.Context, u User, fixture bool, guards checks) (User, error) {
	u.ID, u.CreatedAt, u.Revision = secret.NewID(s.random), s.Now(), 1
	created, code := s.change(ctx, "user created"), s.change(ctx, "")
	if !u.code.expiresAt.IsZero() {
		code = s.change(ctx, reasonCodeMade)
	}
	err := guards.guarded(s.db).Update(ctx, func(tx kv.Txn) error {
		if err := claimName(tx, u); err != nil {
			return err
		}
		account, err := s.accountFor(tx, u.Account, guards)
		if err != nil {
			return err
		}
		if u.accountNow = account.head(); !u.code.hash.IsZero() {
			u.setCode(u.code)
		}
		if fixture {
			if err := s.markFixture(tx); err != nil {
				return err
			}
		}
		return errors.Join(tx.Set(u.indexKey(), nil, time.Time{}), writeUser(tx, User{}, u), created.ofUser(tx, u), code.ofUser(tx, u))
	})
	if err != nil {
		return User{}, fmt.Errorf("create user: %w", err)
	}
	if u.Operator {
		s.happened(ctx, HappenedPrivileges, u.Subject())
	}
	return u, nil
}

// claimName gives the user's name to the user. Errors: ErrExists.
func claimName(tx kv.Txn, u User) error {
	key := record.UserNameKey(u.Canonical)
	_, err := tx.Get(key)
	if err == nil {
		return record.ErrExists
	}
	if !record.IsAbsent(err) {
		return err
	}
	return tx.Set(key, u.ID[:], time.Time{})
}

// indexKey is the entry of the user in the list of the account's users.
func (u User) indexKey() record.Key { return record.AccountUsersKey(u.Account).ID(u.ID) }

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

// ListUsersByID returns up to limit users after the given Subject, in the order of their ids: those
// of an account, or with "" of all. Errors: *InvalidError for a malformed Subject.
func (s *Store) ListUsersByID(ctx context.Context, account, after string, limit int) (users []User, err error) {
	index := record.NewKey(record.TagUser)
	if account != "" {
		if record.CheckAccountID(account) != nil {
			return nil, nil // no account has such an id
		}
		index = record.AccountUsersKey(account)
	}
	lo, ok := behindName(index, after, func(name string) ([16]byte, bool) { return numberNamed(subjectPrefix, name) })
	if !ok {
		return nil, record.Invalid("after", "tollhouse user list shows the ids", "after must be the id of a user")
	}
	r := index.From(lo)
	r.Limit, r.KeysOnly = limit, true
	err = s.db.View(ctx, func(rd kv.Reader) error {
		users = nil
		var ids []secret.ID
		var keys [][]byte
		for k := range rd.Scan(r) {
			id := secret.ID(k[len(index):])
			ids, keys = append(ids, id), append(keys, record.UserKey(id))
		}
		for i, v := range rd.GetMany(keys) {
			u, err := decodeUser(ids[i], v)
			if err != nil {
				return err
			}
			users = append(users, u)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list users by id: %w", err)
	}
	return users, nil
}

// AuthenticateUser returns the user with that name if the password is right. Every
// call costs one password hash, outside any transaction. A hash with older parameters, or of
// another system, is renewed. A refusal takes the same time for every name: while users have imported
// hashes, it waits without a turn. Errors: ErrMismatch for an unknown name, a wrong password or a
// user who may not sign in; ErrBusy.
func (s *Store) AuthenticateUser(ctx context.Context, c secret.Caller, username, password string) (User, error) {
	// No password is that long. Refused before hashing for every name.
	if min(len(password), len(secret.PreparePassword(password))) > secret.PasswordSizeMax {
		return User{}, fmt.Errorf("authenticate user: %w", record.ErrMismatch)
	}
	u, err := s.FindUser(ctx, username)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return User{}, err
	}
	verdict, err := s.hasher.Verify(ctx, c, u.password, password)
	if err != nil {
		return User{}, fmt.Errorf("authenticate user: %w", err)
	}
	if !verdict.Match || !u.MaySignIn() {
		refusal, err := s.refusalTime(ctx)
		if err != nil && ctx.Err() == nil {
			return User{}, fmt.Errorf("authenticate user: %w", err)
		}
		verdict.Refuse(ctx, refusal)
		return User{}, fmt.Errorf("authenticate user: %w", record.ErrMismatch) // also if the caller is gone
	}
	if verdict.Renew {
		return s.renewPassword(ctx, c, u, password), nil
	}
	s.userSignedIn(ctx, u)
	return u, nil
}

// DisableUser disables a user, revokes their sessions, codes and tokens, disables the webhook
// endpoints that these created, and revokes a code for a new password. It is idempotent. As for
// every change, the user is named by name or by Subject. Errors: ErrNotFound, those of the guards.
func (s *Store) DisableUser(ctx context.Context, user string, guards ...Guard) (User, error) {
	return s.disableUser(ctx, user, "user disabled", guards)
}

func (s *Store) disableUser(ctx context.Context, user, reason string, guards checks) (User, error) {
	return s.endUser(ctx, user, reason, guards, func(u *User) {
		if u.DisabledAt.IsZero() {
			u.DisabledAt, u.code = s.Now(), userCode{}
			u.Generation++
		}
	})
}

// EnableUser lets a user sign in again, without their old sessions and tokens. Errors:
// ErrNotFound, those of the guards.
func (s *Store) EnableUser(ctx context.Context, user string, guards ...Guard) (User, error) {
	return s.changeUser(ctx, user, "user enabled", guards, func(_ kv.Txn, u *User) error {
		u.DisabledAt = time.Time{}
		return nil
	})
}

// RevokeUser revokes the sessions, codes and tokens of a user, disables the webhook endpoints
// that these created, and revokes a code for a new password. The user may sign in again. Errors:
// ErrNotFound, those of the guards.
func (s *Store) RevokeUser(ctx context.Context, user string, guards ...Guard) (User, error) {
	return s.endUser(ctx, user, "all of the user revoked", guards, func(u *User) {
		u.code = userCode{}
		u.Generation++
	})
}

// RenameUser gives a user another name. The id stays, and so do sessions and tokens. Errors:
// *InvalidError, ErrNotFound, ErrExists, those of the guards.
func (s *Store) RenameUser(ctx context.Context, user, name string, guards ...Guard) (User, error) {
	shown, canonical, err := newUsername(name)
	if err != nil {
		return User{}, err
	}
	return s.changeUser(ctx, user, "user renamed", guards, func(tx kv.Txn, u *User) error {
		was := u.Canonical
		if u.Username, u.Canonical = shown, canonical; canonical == was {
			return nil
		}
		return errors.Join(claimName(tx, *u), tx.Delete(record.UserNameKey(was)))
	})
}

// PromoteUser makes a user an operator, unless a platform client may know the password. It is
// idempotent. Errors: ErrNotFound, *InvalidError, those of the guards.
func (s *Store) PromoteUser(ctx context.Context, user string, guards ...Guard) (User, error) {
	return s.setOperator(ctx, user, "user promoted", true, guards)
}

// DemoteUser makes an operator an ordinary user. It is idempotent. Errors: ErrNotFound, those of the
// guards.
func (s *Store) DemoteUser(ctx context.Context, user string, guards ...Guard) (User, error) {
	return s.setOperator(ctx, user, "user demoted", false, guards)
}

func (s *Store) setOperator(ctx context.Context, user, reason string, operator bool, guards checks) (User, error) {
	was := false
	u, err := s.changeUser(ctx, user, reason, guards, func(_ kv.Txn, u *User) error {
		was = u.Operator
		if operator && !u.Operator {
			if u.lent {
				return record.Invalid("username", "set another password first: tollhouse user passwd NAME, or tollhouse user code NAME", "a platform client created the user, or made a code for them, and may know the password")
			}
			u.code = userCode{} // who could have a code made for a user may not become an operator by it
		}
		u.Operator = operator
		return nil
	})
	if err == nil && operator && !was {
		s.happened(ctx, HappenedPrivileges, u.Subject())
	}
	return u, err
}

// changeUser is for operators: it may revoke what the user has, even when the disk is full.
// The audit line has the reason.
func (s *Store) changeUser(ctx context.Context, user, reason string, guards checks, change func(kv.Txn, *User) error) (u User, err error) {
	line := s.change(ctx, reason)
	err = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) (err error) {
		u, err = guards.changeUser(tx, user, line, func(u *User) error { return change(tx, u) })
		return err
	})
	if err != nil {
		return User{}, fmt.Errorf("change user: %w", err)
	}
	return u, nil
}

// endUser is changeUser for a change that revokes the user's tokens. It also disables the webhook
// endpoints that they created.
func (s *Store) endUser(ctx context.Context, user, reason string, guards checks, change func(*User)) (u User, err error) {
	line := s.change(ctx, reason)
	err = s.revoke(ctx, kv.Ruling, line.By, secret.NewTail(s.random), func(tx kv.Txn, n *webhook.Ending) (err error) {
		u, err = guards.changeUser(tx, user, line, func(u *User) error { change(u); return nil })
		if err != nil {
			return err
		}
		return u.endWebhooks(tx, n)
	})
	if err != nil {
		return User{}, fmt.Errorf("end user: %w", err)
	}
	return u, nil
}

// changeUser changes a user within tx, if the guards hold.
func (cs checks) changeUser(tx kv.Txn, user string, line changeLine, change func(*User) error) (u User, err error) {
	u, err = cs.readUser(tx, user)
	was := u
	if err == nil {
		err = change(&u)
	}
	if err != nil {
		return User{}, err
	}
	return u, saveUser(tx, was, &u, line)
}

// readUser returns the user that is to be changed, if the guards hold.
func (cs checks) readUser(tx kv.Txn, user string) (u User, err error) {
	if err = cs.begin(tx); err == nil {
		u, err = readUserNamed(tx, user)
	}
	if err == nil {
		err = cs.user(u)
	}
	return u, err
}

// saveUser writes a user that was changed, under a new revision, and the audit line. Without a
// change it does nothing.
func saveUser(tx kv.Txn, was User, u *User, line changeLine) error {
	if *u == was {
		return nil
	}
	u.Revision++
	return errors.Join(writeUser(tx, was, *u), line.ofUser(tx, *u))
}

// endWebhooks disables the webhook endpoints that the user's tokens created.
func (u User) endWebhooks(tx kv.Txn, n *webhook.Ending) error {
	return n.In(tx, u.Account, webhook.Owner{User: u.Subject()})
}

// DeleteUser deletes a user, who is disabled first, which revokes their tokens, codes and
// sessions immediately. The user's record is deleted last, so that a failed deletion can be
// repeated. Errors: ErrNotFound, those of the guards, also in between: then the user stays disabled.
func (s *Store) DeleteUser(ctx context.Context, user string, guards ...Guard) error {
	u, err := s.disableUser(ctx, user, "user deletion begun", guards)
	db := checks(guards).guarded(s.db)
	if err == nil {
		err = record.DeleteAll(ctx, db, record.UserConsentsKey(u.ID).All())
	}
	if err == nil {
		err = deleteIndexed(ctx, db, record.UserSessionsKey(u.ID), func(rest []byte) [][]byte {
			return [][]byte{append(record.NewKey(record.TagSession), rest...)}
		})
	}
	if err == nil {
		err = deleteFamilies(ctx, db, record.UserFamiliesKey(u.ID))
	}
	if err == nil {
		later, line := laterOf(guards), s.change(ctx, "user deleted")
		err = record.UpdateAs(ctx, db, kv.Ruling, func(tx kv.Txn) error {
			now, err := readUser(tx, u.ID) // may have another name by now
			if err == nil {
				err = later.user(now)
			}
			if err != nil {
				return err
			}
			return errors.Join(countImported(tx, now, &User{}), record.DeleteKeys(tx, record.UserKey(u.ID), record.UserNameKey(now.Canonical), u.indexKey(), record.SignInKey(u.ID), record.FactorKey(u.ID)), line.ofUser(tx, u))
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
func deleteIndexed(ctx context.Context, db kv.DB, prefix record.Key, pointed func(rest []byte) [][]byte) error {
	r := prefix.All()
	r.KeysOnly, r.Limit = true, record.DeleteBatchMax/4
	for {
		var batch [][]byte
		err := db.View(ctx, func(rd kv.Reader) error {
			for k := range rd.Scan(r) {
				k = slices.Clone(k)
				batch = append(append(batch, pointed(k[len(prefix):])...), k)
			}
			return nil
		})
		if err != nil || len(batch) == 0 {
			return err
		}
		if err := record.UpdateAs(ctx, db, kv.Ending, func(tx kv.Txn) error { return record.DeleteKeys(tx, batch...) }); err != nil {
			return err
		}
		r.Lo = append(batch[len(batch)-1], 0)
	}
}

// readUserNamed returns the user with that name, in any spelling, or that Subject: no name has the
// form of one.
func readUserNamed(r kv.Reader, user string) (User, error) {
	if id, ok := numberNamed(subjectPrefix, user); ok {
		return readUser(r, id)
	}
	canonical, err := CanonicalUsername(user)
	if err != nil {
		return User{}, record.ErrNotFound
	}
	return readUserByName(r, canonical)
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

// readUser returns a user with the state of the account.
func readUser(r kv.Reader, id secret.ID) (User, error) {
	u, err := record.Read(r, record.UserKey(id), id, decodeUser)
	if err != nil {
		return User{}, err
	}
	u.accountNow, err = readAccountHead(r, u.Account)
	return u, record.GoneIsNil(err)
}

// writeUser writes a user who was another before, or the zero User, and counts an imported hash.
func writeUser(tx kv.Txn, was, u User) error {
	if err := countImported(tx, was, &u); err != nil {
		return err
	}
	if u.HasFactor() && was.password != u.password && was.Revision != u.Revision { // not renewed, but another one
		if err := endGuesses(tx, u.ID); err != nil {
			return err
		}
	}
	return tx.Set(record.UserKey(u.ID), encodeUser(u), time.Time{})
}

func encodeUser(u User) []byte {
	e := record.NewEncoder(userRecord).Uint(u.Generation).Time(u.DisabledAt).Str(u.Username).Str(u.Canonical).
		Str(u.Account).Str(u.password).Time(u.importedOn).Time(u.CreatedAt).Bool(u.Operator).Uint(u.Revision).Uint(u.importedRevision).Time(u.code.expiresAt)
	if !u.code.expiresAt.IsZero() {
		e.Hash(u.code.hash).Uint(u.code.accountGeneration)
	}
	if e.Bool(u.lent).Bool(u.code.lent); u.factorRevision > 0 {
		e.Byte(byte(u.factors)).Uint(u.factorRevision)
	}
	return e.B
}

func decodeUser(id secret.ID, v []byte) (User, error) {
	d := record.NewDecoder("user", userRecord, v)
	u := decodeUserFields(&d, id)
	u.Canonical, u.Account, u.password, u.importedOn, u.CreatedAt = d.Str(), d.Str(), d.Str(), d.Time(), d.Time()
	u.Operator, u.Revision, u.importedRevision, u.code.expiresAt = d.Bool(), d.Uint(), d.Uint(), d.Time()
	if !u.code.expiresAt.IsZero() {
		u.code.hash, u.code.accountGeneration = d.Hash(), d.Uint()
	}
	if u.lent, u.code.lent = d.Bool(), d.Bool(); d.More() {
		u.factors, u.factorRevision = decodeFactors(&d), d.Uint()
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
