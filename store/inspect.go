package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Inspection is everything that the store knows about a secret, for the operator.
type Inspection struct {
	Kind        secret.Kind
	Ended       string   // why it is no longer valid: an Ended constant or its family's revocation reason; "" while valid
	Permissions []string // what it gives while valid; empty for a session
	IssuedAt    time.Time
	ExpiresAt   time.Time // current expiry; of a session, if it is not used again
	Family      Family    // without id for an unredeemed code; for a session only user and account
	Session     string    // a session's name
}

// Why a token is no longer valid, in addition to the Reason constants of a revoked family.
const (
	EndedExpired            = "expired"
	EndedSpent              = "spent"   // a refresh token that was exchanged for a new one
	EndedRetired            = "retired" // a refresh token replaced because its answer was lost
	EndedUsed               = "used"    // a code that was redeemed
	EndedClientDeleted      = "client_deleted"
	EndedClientDisabled     = "client_disabled"
	EndedClientTokensEnded  = "client_tokens_ended" // re-enabled since, or its secret leaked
	EndedUserDeleted        = "user_deleted"
	EndedUserDisabled       = "user_disabled"
	EndedUserTokensEnded    = "user_tokens_ended" // re-enabled since, or password changed
	EndedAccountDeleted     = "account_deleted"
	EndedAccountDisabled    = "account_disabled"
	EndedAccountTokensEnded = "account_tokens_ended" // re-enabled since, or all its tokens revoked
)

// Inspect shows the operator what a secret is and whether it is valid. Unlike
// [Store.Introspect] it does not count as a use. Errors: *InvalidError for text that
// is no token, ErrNotFound for an unknown token.
func (s *Store) Inspect(ctx context.Context, text string) (found Inspection, err error) {
	kind, token, err := s.kindOf(ctx, text, secret.AccessToken, secret.RefreshToken, secret.Code, secret.SessionToken)
	if errors.Is(err, record.ErrNotFound) {
		return Inspection{}, notInspected(text)
	}
	if err == nil {
		inspect := map[secret.Kind]func(kv.Reader, secret.Hash) (Inspection, error){
			secret.AccessToken: s.inspectAccess, secret.RefreshToken: s.inspectRefresh, secret.Code: s.inspectCode, secret.SessionToken: s.inspectSession,
		}[kind]
		err = s.db.View(ctx, func(r kv.Reader) error {
			found, err = inspect(r, token.Hash())
			found.Kind = kind
			return err
		})
	}
	if record.IsAbsent(err) {
		err = record.ErrNotFound
	}
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect: %w", err)
	}
	return found, nil
}

// notInspected explains why text is not a token, without repeating it.
func notInspected(text string) error {
	if _, ok := secret.Parse(secret.ClientSecret, text); ok {
		return record.Invalid("token", "tollhouse client rotate-secret CLIENT_ID --revoke-tokens ends a secret that leaked", "this is a client secret, not a token")
	}
	return record.Invalid("token", "check that it is complete: a token has a prefix such as tollat_, 43 characters and a checksum of 6",
		"this is not a complete tollhouse token")
}

func (s *Store) inspectAccess(r kv.Reader, h secret.Hash) (Inspection, error) {
	t, err := readAccessToken(r, h)
	if err != nil {
		return Inspection{}, err
	}
	f, err := readFamily(r, t.family)
	if record.IsAbsent(err) { // deleted with its client or user; the token still names them
		f, err = family{id: t.family, lineage: t.lineage, scope: t.scope}, nil
	}
	if err != nil {
		return Inspection{}, err
	}
	return s.inspectFamily(r, f, Inspection{IssuedAt: t.issuedAt, ExpiresAt: t.expiresAt}, t.scope, "")
}

func (s *Store) inspectRefresh(r kv.Reader, h secret.Hash) (Inspection, error) {
	t, err := readRefreshToken(r, h)
	if err != nil {
		return Inspection{}, err
	}
	ended := ""
	switch {
	case !t.retiredAt.IsZero():
		ended = EndedRetired
	case !t.spentAt.IsZero():
		ended = EndedSpent
	}
	f, err := readFamily(r, t.family)
	if err != nil {
		return Inspection{}, err
	}
	return s.inspectFamily(r, f, Inspection{ExpiresAt: t.expiresAt}, t.scope, ended)
}

// inspectFamily checks a token's family first, then its parties, then the token.
func (s *Store) inspectFamily(r kv.Reader, f family, i Inspection, scope Scope, ended string) (Inspection, error) {
	p, gone, err := inspectParties(r, f.lineage)
	if err != nil {
		return Inspection{}, err
	}
	i.Family = f.shown(p)
	switch {
	case !f.revokedAt.IsZero():
		i.Ended = f.reason
	case gone != "":
		i.Ended = gone
	case ended != "":
		i.Ended = ended
	case !s.Now().Before(i.ExpiresAt), !s.Now().Before(f.expiresAt):
		i.Ended = EndedExpired
	default:
		i.Permissions = givesNow(scope, p.client.Scope).Names()
	}
	return i, nil
}

func (s *Store) inspectCode(r kv.Reader, h secret.Hash) (Inspection, error) {
	c, err := readCode(r, h)
	if err != nil {
		return Inspection{}, err
	}
	i := Inspection{ExpiresAt: c.expiresAt}
	if f, err := readFamily(r, c.family); err == nil || !record.IsAbsent(err) {
		if err != nil {
			return Inspection{}, err
		}
		return s.inspectFamily(r, f, i, c.scope, EndedUsed)
	}
	p, gone, err := inspectParties(r, c.lineage)
	if err != nil {
		return Inspection{}, err
	}
	i.Family = family{lineage: c.lineage, scope: c.scope}.shown(p)
	i.Family.ID = ""
	switch {
	case gone != "":
		i.Ended = gone
	case !c.usedAt.IsZero():
		i.Ended = EndedUsed
	case !s.Now().Before(c.expiresAt):
		i.Ended = EndedExpired
	default:
		i.Permissions = givesNow(c.scope, p.client.Scope).Names()
	}
	return i, nil
}

func (s *Store) inspectSession(r kv.Reader, h secret.Hash) (Inspection, error) {
	sn, err := readSession(r, h)
	if err != nil {
		return Inspection{}, err
	}
	i := Inspection{IssuedAt: sn.AuthenticatedAt, ExpiresAt: s.SessionEnds(sn), Session: sn.Name()}
	u, err := readUser(r, sn.user)
	if err != nil && !record.IsAbsent(err) {
		return Inspection{}, err
	}
	sn.User = u
	id := User{ID: sn.user}
	i.Family = Family{UserID: id.Subject(), Username: u.Username, Account: u.Account}
	i.Ended = userEnded(u, err != nil, sn.generation)
	switch {
	case i.Ended != "" || s.isLive(sn):
	case u.keeps(sn.generation, sn.accountGeneration):
		i.Ended = EndedExpired
	default:
		i.Ended = accountEnded(u.accountNow, sn.accountGeneration)
	}
	return i, nil
}

// inspectParties is readParties that also says which party is no longer valid, and why.
func inspectParties(r kv.Reader, l lineage) (p parties, ended string, err error) {
	v, err := r.Get(record.ClientKey(l.client))
	clientGone := record.IsAbsent(err)
	if err == nil {
		p.client, err = decodeClientHead(l.client, v)
	}
	if err != nil && !clientGone {
		return parties{}, "", err
	}
	otherEnded, err := p.readOther(r, l)
	if err != nil {
		return parties{}, "", err
	}
	switch {
	case clientGone:
		ended = EndedClientDeleted
	case !p.client.DisabledAt.IsZero():
		ended = EndedClientDisabled
	case p.client.Generation != l.clientGeneration:
		ended = EndedClientTokensEnded
	default:
		ended = otherEnded
	}
	return p, ended, nil
}

// readOther reads the user of a lineage, if any, and the account, and returns why one of them is
// no longer valid.
func (p *parties) readOther(r kv.Reader, l lineage) (ended string, err error) {
	if l.user.IsZero() && l.account == "" { // a platform client, which acts for any
		return "", nil
	}
	a, err := readAccountHead(r, l.account)
	if p.client.Platform { // and for a disabled one
		a.DisabledAt = time.Time{}
	}
	if record.GoneIsNil(err) != nil {
		return "", err
	}
	if l.user.IsZero() {
		return accountEnded(a, l.accountGeneration), nil
	}
	v, err := r.Get(record.UserKey(l.user))
	gone := record.IsAbsent(err)
	if err == nil {
		p.user, err = decodeUserHead(l.user, v)
	}
	if err != nil && !gone {
		return "", err
	}
	return cmp.Or(userEnded(p.user, gone, l.userGeneration), accountEnded(a, l.accountGeneration)), nil
}

// accountEnded returns why tokens of that generation of an account are no longer valid.
func accountEnded(a Account, generation uint64) string {
	switch {
	case a.ID == "" || !a.erasedSince.IsZero():
		return EndedAccountDeleted
	case !a.DisabledAt.IsZero():
		return EndedAccountDisabled
	case a.Generation != generation:
		return EndedAccountTokensEnded
	}
	return ""
}

// userEnded returns why tokens of that generation of a user are no longer valid.
func userEnded(u User, gone bool, generation uint64) string {
	switch {
	case gone:
		return EndedUserDeleted
	case !u.DisabledAt.IsZero():
		return EndedUserDisabled
	case u.Generation != generation:
		return EndedUserTokensEnded
	}
	return ""
}
