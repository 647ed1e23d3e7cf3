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
	"tollhouse/store/webhook"
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
	Account  string // only families without a user, of this account
	Within   string // only families of this account
}

func (w FamilyFilter) selects(f family) bool {
	return (w.Within == "" || f.account == w.Within) && (w.ClientID == "" || f.client == w.ClientID) && (w.Account == "" || f.user.IsZero() && f.account == w.Account)
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
			if !want.selects(f.family) {
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

// IsFamilyID reports whether text has the form of a family's id.
func IsFamilyID(text string) bool {
	_, ok := familyNamed(text)
	return ok
}

// numberNamed parses a name made of a prefix and a number.
func numberNamed(prefix, name string) (n [16]byte, ok bool) {
	text, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return n, false
	}
	return secret.ParseCrockford(text)
}

// Revocation is what RevokeFamily and RevokeFamilyOf did.
type Revocation struct {
	Family
	HadEnded bool // the family was not live; only its webhook endpoints were left
	Webhooks int  // webhook endpoints that were disabled
}

// RevokeFamily revokes a live family by id, for the operator, and returns it. Webhook
// endpoints that its tokens created are disabled too, even if the family is not live, and codes
// that its client has not redeemed for its user are revoked. Errors: ErrNotFound, also if nothing
// is left to revoke; those of the guards, of which only Live is called.
func (s *Store) RevokeFamily(ctx context.Context, by By, id string, guards ...Guard) (r Revocation, err error) {
	number, ok := familyNamed(id)
	if err = record.ErrNotFound; ok {
		r, err = s.revokeForOperator(ctx, by, number, guards)
	}
	if err != nil {
		return Revocation{}, fmt.Errorf("revoke family: %w", err)
	}
	return r, nil
}

// RevokeFamilyOf is RevokeFamily by a token of the family. A spent refresh token or an
// expired access token identifies its family too. Errors: ErrNotFound.
func (s *Store) RevokeFamilyOf(ctx context.Context, by By, text string) (revoked Revocation, err error) {
	kind, token, err := s.kindOf(ctx, text, secret.AccessToken, secret.RefreshToken, secret.Code)
	var id secret.ID
	if err == nil {
		err = s.db.View(ctx, func(r kv.Reader) error {
			id, err = familyOf(r, kind, token.Hash())
			return err
		})
	}
	if err == nil {
		revoked, err = s.revokeForOperator(ctx, by, id, nil)
	}
	if err != nil {
		return Revocation{}, fmt.Errorf("revoke family of a token: %w", err)
	}
	return revoked, nil
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

// revokeForOperator revokes a live family and writes an audit line. It also revokes what the
// user allowed the client and codes that the client has not redeemed, or it could get
// access again without asking. If the family is not live, it disables the webhook endpoints
// that are left.
func (s *Store) revokeForOperator(ctx context.Context, by By, id secret.ID, guards checks) (revoked Revocation, err error) {
	now, tail := s.Now(), secret.NewTail(s.random)
	read := func(r kv.Reader) (f family, live bool, err error) {
		if f, err = readFamily(r, id); err != nil {
			return f, false, err
		}
		p, err := readParties(r, f.lineage)
		live = err == nil && f.revokedAt.IsZero() && now.Before(f.expiresAt)
		revoked = Revocation{Family: f.shown(p), HadEnded: !live}
		if errors.Is(err, record.ErrDisabled) {
			err = nil
		}
		return f, live, err
	}
	var f family
	var live bool
	err = s.db.View(ctx, func(r kv.Reader) (err error) {
		f, live, err = read(r)
		return err
	})
	if errors.Is(err, record.ErrNotFound) {
		return s.endRemoved(ctx, by, id, tail, guards)
	}
	if err != nil {
		return Revocation{}, err
	}
	endCodes := func() error {
		if !live {
			return nil
		}
		return s.revokeCodes(ctx, guards.guarded(s.db), by, record.UserCodesKey(f.user, f.client), ReasonRevokedByOperator)
	}
	// First, because a caller killed in between must be able to revoke again.
	if err := endCodes(); err != nil {
		return Revocation{}, err
	}
	var ending *webhook.Ending
	err = s.revoke(ctx, kv.Ruling, by, tail, func(tx kv.Txn, n *webhook.Ending) error {
		if err := guards.begin(tx); err != nil {
			return err
		}
		if f, live, err = read(tx); err != nil {
			return err
		}
		if ending = n; !live {
			return endWebhooks(tx, n, f)
		}
		if _, err := forget(tx, f.user, f.client, now); err != nil {
			return err
		}
		if err := revokeFamily(tx, n, f, now, ReasonRevokedByOperator); err != nil {
			return err
		}
		return appendAudit(tx, f.auditLine(AuditRevoke, ReasonRevokedByOperator, by), now, tail)
	})
	if err != nil {
		return Revocation{}, err
	}
	if revoked.Webhooks = ending.Count(); revoked.HadEnded && revoked.Webhooks == 0 {
		return Revocation{}, record.ErrNotFound
	}
	if err := endCodes(); err != nil { // those made in the meantime
		s.log.Warn("codes of revoked tokens not ended", "client_id", revoked.ClientID, "user_id", revoked.UserID, "err", err)
	}
	return revoked, nil
}

// endRemoved disables the webhook endpoints of a family that has expired and was removed.
func (s *Store) endRemoved(ctx context.Context, by By, id secret.ID, tail [8]byte, guards checks) (revoked Revocation, err error) {
	account, o, err := s.Webhooks.OfFamily(ctx, id)
	if err != nil {
		return Revocation{}, err
	}
	var ending *webhook.Ending
	err = s.revoke(ctx, kv.Ruling, by, tail, func(tx kv.Txn, n *webhook.Ending) error {
		ending = n
		if err := guards.begin(tx); err != nil {
			return err
		}
		return n.In(tx, account, o)
	})
	if err != nil {
		return Revocation{}, err
	}
	shown := Family{ID: familyName(id), ClientID: o.Client, UserID: o.User, Account: account}
	return Revocation{Family: shown, HadEnded: true, Webhooks: ending.Count()}, nil
}
