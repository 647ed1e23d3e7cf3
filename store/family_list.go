package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Family is an operator's view of a family. Its id is not a secret.
type Family struct {
	ID          string // fam_ and 26 characters, as in the audit log
	ClientID    string
	ClientName  string
	UserID      string // the user's Subject
	Username    string
	Account     string
	Permissions []string // names of its current permissions
	CreatedAt   time.Time
	UsedAt      time.Time // exact to a few minutes; zero if never used
	ExpiresAt   time.Time
}

// FamilyFilter selects families. The zero FamilyFilter selects all.
type FamilyFilter struct {
	ClientID string
	User     *User
}

// ListFamilies returns up to limit live families after the given id, in the order of
// their ids. Errors: *InvalidError for a malformed id.
func (s *Store) ListFamilies(ctx context.Context, want FamilyFilter, behind string, limit int) (list []Family, err error) {
	index := want.index()
	lo, ok := behindName(index, behind, familyNamed)
	if !ok {
		return nil, record.Invalid("after", "tollhouse token list shows the ids", "after must be the id of a family of tokens")
	}
	_, err = s.eachIndexPageFrom(ctx, index, lo, func(ends [][]byte) (more bool, err error) {
		live, err := s.liveFamilies(ctx, ends)
		for _, f := range live {
			if want.ClientID != "" && f.client != want.ClientID {
				continue
			}
			if list = append(list, f.shown()); len(list) == limit {
				return false, nil
			}
		}
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("list families: %w", err)
	}
	return list, nil
}

// index is the narrowest index that holds all wanted families. Its keys end in the
// family's id.
func (w FamilyFilter) index() record.Key {
	switch {
	case w.User != nil:
		return record.UserFamiliesKey(w.User.ID)
	case w.ClientID != "":
		return record.ClientFamiliesKey(w.ClientID)
	}
	return record.NewKey(record.TagFamily)
}

// behindName returns the key in an index from which to list the records after the
// named one; "" starts at the beginning. ok is false for a malformed name.
func behindName(index record.Key, name string, number func(name string) ([16]byte, bool)) (lo record.Key, ok bool) {
	if name == "" {
		return index, true
	}
	n, ok := number(name)
	return record.After(append(slices.Clone(index), n[:]...)), ok
}

func (f liveFamily) shown() Family {
	return f.family.shown(parties{client: f.clientNow, user: f.userNow})
}

// shown returns the view of a family. If a party no longer exists, only its id is
// filled in.
func (f family) shown(p parties) Family {
	user := User{ID: f.user}
	return Family{
		ID: familyName(f.id), ClientID: f.client, ClientName: p.client.Name, UserID: user.Subject(), Username: p.user.Username, Account: f.account,
		Permissions: givesNow(f.scope, p.client.Scope).Names(), CreatedAt: f.createdAt, UsedAt: f.usedAt, ExpiresAt: f.expiresAt,
	}
}

// familyNamed is the inverse of familyName.
func familyNamed(name string) (id [16]byte, ok bool) { return numberNamed(familyPrefix, name) }

// numberNamed parses a name made of a prefix and a number.
func numberNamed(prefix, name string) (n [16]byte, ok bool) {
	text, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return n, false
	}
	return secret.ParseCrockford(text)
}

// RevokeFamily revokes a live family by id, for the operator, and returns it. Errors:
// ErrNotFound, also for a family that has ended.
func (s *Store) RevokeFamily(ctx context.Context, by By, id string) (Family, error) {
	f, err := s.revokeFound(ctx, by, func(tx kv.Txn) (family, error) {
		id, ok := familyNamed(id)
		if !ok {
			return family{}, record.ErrNotFound
		}
		return readFamily(tx, id)
	})
	if err != nil {
		return Family{}, fmt.Errorf("revoke family: %w", err)
	}
	return f, nil
}

// RevokeFamilyOf revokes the live family of a token, for the operator, and returns it.
// A spent refresh token or an expired access token identifies its family too. Errors:
// ErrNotFound.
func (s *Store) RevokeFamilyOf(ctx context.Context, by By, text string) (Family, error) {
	kind, token, err := s.kindOf(ctx, text, secret.AccessToken, secret.RefreshToken, secret.Code)
	if err != nil {
		return Family{}, fmt.Errorf("revoke family of a token: %w", err)
	}
	f, err := s.revokeFound(ctx, by, func(tx kv.Txn) (family, error) {
		id, err := familyOf(tx, kind, token.Hash())
		if err != nil {
			return family{}, err
		}
		return readFamily(tx, id)
	})
	if err != nil {
		return Family{}, fmt.Errorf("revoke family of a token: %w", err)
	}
	return f, nil
}

// familyOf returns the family of an access token, a refresh token, or a redeemed code.
func familyOf(r kv.Reader, kind secret.Kind, h secret.Hash) (secret.ID, error) {
	switch kind {
	case secret.AccessToken:
		t, err := readAccessToken(r, h)
		return t.family, err
	case secret.RefreshToken:
		t, err := readRefreshToken(r, h)
		return t.family, err
	}
	c, err := readCode(r, h)
	if err == nil && c.usedAt.IsZero() {
		err = record.ErrNotFound
	}
	return c.family, err
}

// revokeFound revokes the family that find returns and writes an audit line. It also ends
// what the user allowed the client, or the client could have access again without asking.
func (s *Store) revokeFound(ctx context.Context, by By, find func(kv.Txn) (family, error)) (shown Family, err error) {
	now, tail := s.Now(), secret.NewTail(s.random)
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		f, err := find(tx)
		if err != nil {
			return err
		}
		p, err := readParties(tx, f.lineage)
		if errors.Is(err, record.ErrDisabled) || !f.revokedAt.IsZero() || !now.Before(f.expiresAt) {
			return record.ErrNotFound
		}
		if err != nil {
			return err
		}
		shown = f.shown(p)
		if _, err := forget(tx, f.user, f.client, now); err != nil {
			return err
		}
		if err := revokeFamily(tx, f, now, ReasonRevokedByOperator); err != nil {
			return err
		}
		return appendAudit(tx, f.auditLine(AuditRevoke, ReasonRevokedByOperator, by), now, tail)
	})
	return shown, err
}
