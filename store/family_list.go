package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Family is what an operator sees of a family: who may act for whom. Its id
// names it and opens nothing.
type Family struct {
	ID          string // fam_ and 26 characters, as in the audit record
	ClientID    string
	ClientName  string
	UserID      string // the user's Subject
	Username    string
	Account     string
	Permissions []string // names of what it gives now, as the client stands now
	CreatedAt   time.Time
	UsedAt      time.Time // within a few minutes of being exact; zero when it was never used
	ExpiresAt   time.Time
}

// FamilyFilter says which families are wanted. The zero one wants all.
type FamilyFilter struct {
	ClientID string
	User     *User
}

// ListFamilies returns at most limit live families behind the one of that id, in
// the order of their ids. Errors: *InvalidError for an id that is none.
func (s *Store) ListFamilies(ctx context.Context, want FamilyFilter, behind string, limit int) (list []Family, err error) {
	index := want.index()
	lo, ok := behindName(index, behind, familyNamed)
	if !ok {
		return nil, invalid("after", "tollhouse token list shows those that there are", "after must be the id of a family of tokens")
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

// index is the narrowest list of families that holds all that are wanted. Each
// of its keys ends in a family's id.
func (w FamilyFilter) index() key {
	switch {
	case w.User != nil:
		return userFamiliesKey(w.User.ID)
	case w.ClientID != "":
		return clientFamiliesKey(w.ClientID)
	}
	return newKey(tagFamily)
}

// behindName is where a list goes on behind the record of that name, whose number
// follows index in its key; "" is the list's beginning. ok is false for a name that
// is none.
func behindName(index key, name string, number func(name string) ([16]byte, bool)) (lo key, ok bool) {
	if name == "" {
		return index, true
	}
	n, ok := number(name)
	return after(append(slices.Clone(index), n[:]...)), ok
}

func (f liveFamily) shown() Family {
	return f.family.shown(parties{client: f.clientNow, user: f.userNow})
}

// shown is a family with its parties as they stand now; of those that are gone
// there are only the ids.
func (f family) shown(p parties) Family {
	user := User{ID: f.user}
	return Family{
		ID: familyName(f.id), ClientID: f.client, ClientName: p.client.Name, UserID: user.Subject(), Username: p.user.Username, Account: f.account,
		Permissions: givesNow(f.scope, p.client.Scope).Names(), CreatedAt: f.createdAt, UsedAt: f.usedAt, ExpiresAt: f.expiresAt,
	}
}

// familyNamed is the reverse of familyName.
func familyNamed(name string) (id [16]byte, ok bool) { return numberNamed(familyPrefix, name) }

// numberNamed returns the number in a name that is a prefix and a number.
func numberNamed(prefix, name string) (n [16]byte, ok bool) {
	text, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return n, false
	}
	return secret.ParseCrockford(text)
}

// RevokeFamily ends a live family by its id, for the operator, and returns what
// it was. Errors: ErrNotFound, also for one that has ended.
func (s *Store) RevokeFamily(ctx context.Context, by By, id string) (Family, error) {
	f, err := s.revokeFound(ctx, by, func(tx kv.Txn) (family, error) {
		id, ok := familyNamed(id)
		if !ok {
			return family{}, ErrNotFound
		}
		return readFamily(tx, id)
	})
	if err != nil {
		return Family{}, fmt.Errorf("revoke family: %w", err)
	}
	return f, nil
}

// RevokeFamilyOf ends the live family that a token belongs to, for the operator,
// and returns what it was. The token itself may be dead already: a refresh token
// that was exchanged, or an access token that has expired, tells which family
// leaked. Errors: ErrNotFound.
func (s *Store) RevokeFamilyOf(ctx context.Context, by By, text string) (Family, error) {
	f, err := s.revokeFound(ctx, by, func(tx kv.Txn) (family, error) {
		id, err := familyOf(tx, text)
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

// familyOf returns the family of an access token, a refresh token, or a code
// that was redeemed.
func familyOf(r kv.Reader, text string) (secret.ID, error) {
	if token, ok := secret.Parse(secret.AccessToken, text); ok {
		t, err := readAccessToken(r, token.Hash())
		return t.family, err
	}
	if token, ok := secret.Parse(secret.RefreshToken, text); ok {
		t, err := readRefreshToken(r, token.Hash())
		return t.family, err
	}
	if token, ok := secret.Parse(secret.Code, text); ok {
		c, err := readCode(r, token.Hash())
		if err == nil && c.usedAt.IsZero() {
			err = ErrNotFound
		}
		return c.family, err
	}
	return secret.ID{}, ErrNotFound
}

// revokeFound ends the family that find returns, with a line in the audit record.
func (s *Store) revokeFound(ctx context.Context, by By, find func(kv.Txn) (family, error)) (shown Family, err error) {
	now, tail := s.Now(), secret.NewTail()
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		f, err := find(tx)
		if err != nil {
			return err
		}
		p, err := readParties(tx, f.lineage)
		if errors.Is(err, ErrDisabled) || !f.revokedAt.IsZero() || !now.Before(f.expiresAt) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		shown = f.shown(p)
		if err := revokeFamily(tx, f, now, ReasonRevokedByOperator); err != nil {
			return err
		}
		return appendAudit(tx, f.auditLine(AuditRevoke, ReasonRevokedByOperator, by), now, tail)
	})
	return shown, err
}
