package store

import (
	"context"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Inspection is what the operator may learn of a secret in hand: all that there
// is to know of it, dead or alive.
type Inspection struct {
	Kind        secret.Kind
	Ended       string   // why it is dead: one of the Ended constants, or the reason for which its family was revoked; "" while it lives
	Permissions []string // what it gives while it lives; none for a session
	IssuedAt    time.Time
	ExpiresAt   time.Time // as it stands; a session's when it is not seen again
	Family      Family    // without id for a code that was never redeemed, and for a session, which has a user and an account alone
	Session     string    // the name of a session
}

// Why a token is dead, beside the Reason constants of a revoked family.
const (
	EndedExpired           = "expired"
	EndedSpent             = "spent"   // a refresh token that was exchanged for a new one
	EndedRetired           = "retired" // a refresh token whose answer was lost, and that was replaced
	EndedUsed              = "used"    // a code that was redeemed
	EndedClientDeleted     = "client_deleted"
	EndedClientDisabled    = "client_disabled"
	EndedClientTokensEnded = "client_tokens_ended" // enabled again since, or its secret had leaked
	EndedUserDeleted       = "user_deleted"
	EndedUserDisabled      = "user_disabled"
	EndedUserTokensEnded   = "user_tokens_ended" // enabled again since, or given another password
)

// Inspect tells the operator what a secret is and whether it lives. That nobody
// uses it by being asked about is what sets it apart from [Store.Introspect].
// Errors: *InvalidError for what cannot be a token, ErrNotFound for one that is
// not in the store (any more).
func (s *Store) Inspect(ctx context.Context, text string) (found Inspection, err error) {
	var read func(r kv.Reader) (Inspection, error)
	for kind, inspect := range map[secret.Kind]func(kv.Reader, secret.Hash) (Inspection, error){
		secret.AccessToken: s.inspectAccess, secret.RefreshToken: s.inspectRefresh, secret.Code: s.inspectCode, secret.SessionToken: s.inspectSession,
	} {
		if token, ok := secret.Parse(kind, text); ok {
			read = func(r kv.Reader) (Inspection, error) {
				found, err := inspect(r, token.Hash())
				found.Kind = kind
				return found, err
			}
		}
	}
	if read == nil {
		return Inspection{}, notInspected(text)
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		found, err = read(r)
		return err
	})
	if isAbsent(err) {
		err = ErrNotFound
	}
	if err != nil {
		return Inspection{}, fmt.Errorf("inspect: %w", err)
	}
	return found, nil
}

// notInspected tells what is not a token, without saying it.
func notInspected(text string) error {
	if _, ok := secret.Parse(secret.ClientSecret, text); ok {
		return invalid("token", "tollhouse client rotate-secret CLIENT_ID --revoke-tokens ends a secret that leaked", "this is a client's secret, and no token")
	}
	return invalid("token", "look whether it is whole: a token has a kind such as tollat_, 43 characters and a checksum of 6",
		"this is no token of tollhouse, or not the whole of one")
}

func (s *Store) inspectAccess(r kv.Reader, h secret.Hash) (Inspection, error) {
	t, err := readAccessToken(r, h)
	if err != nil {
		return Inspection{}, err
	}
	f, err := readFamily(r, t.family)
	if isAbsent(err) { // it went with its client or its user; the token still names them
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

// inspectFamily judges a token by its family first, which ends them all, then by
// its parties, then by itself.
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
	if f, err := readFamily(r, c.family); err == nil || !isAbsent(err) {
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
	if err != nil && !isAbsent(err) {
		return Inspection{}, err
	}
	sn.User = u
	id := User{ID: sn.user}
	i.Family = Family{UserID: id.Subject(), Username: u.Username, Account: u.Account}
	if i.Ended = userEnded(u, err != nil, sn.generation); i.Ended == "" && !s.isLive(sn) {
		i.Ended = EndedExpired
	}
	return i, nil
}

// inspectParties is readParties that tells which of the two has ended, and how.
func inspectParties(r kv.Reader, l lineage) (p parties, ended string, err error) {
	v, err := r.Get(clientKey(l.client))
	clientGone := isAbsent(err)
	if err == nil {
		p.client, err = decodeClientHead(l.client, v)
	}
	if err != nil && !clientGone {
		return parties{}, "", err
	}
	v, err = r.Get(userKey(l.user))
	userGone := isAbsent(err)
	if err == nil {
		p.user, err = decodeUserHead(l.user, v)
	}
	if err != nil && !userGone {
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
		ended = userEnded(p.user, userGone, l.userGeneration)
	}
	return p, ended, nil
}

// userEnded returns why what was given under that generation of a user is dead.
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
