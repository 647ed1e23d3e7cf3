package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// accessToken is what we keep of an access token.
type accessToken struct {
	lineage
	hash      secret.Hash
	family    secret.ID
	scope     Scope
	issuedAt  time.Time
	expiresAt time.Time
	// confirms is the refresh token whose rotation made this one. Its first use
	// proves that the answer arrived, and clears it.
	confirms secret.Hash
}

// Principal is who an access token speaks for.
type Principal struct {
	Account    string
	UserID     string // the user's Subject
	Username   string
	ClientID   string
	ClientName string
	Scope      Scope
	IssuedAt   time.Time
	ExpiresAt  time.Time

	narrowed Scope // of the client, as it stands now
}

// Allows reports whether the token gives every permission that need states. A
// client that was narrowed since is held to what it may do now.
func (p Principal) Allows(need Scope) bool { return p.Scope.Covers(need) && p.narrowed.Covers(need) }

const accessTokenRecord = 1

// FindPrincipal returns whom a live access token speaks for. The token, its
// family, its client and its user are read in one snapshot, with no cache, so
// that a revocation holds from the very next request. That it was used is
// noted without waiting for the note to be written. Errors: ErrNotFound for
// every reason there is.
func (s *Store) FindPrincipal(ctx context.Context, token secret.Token) (Principal, error) {
	p, used, err := s.findPrincipal(ctx, token)
	if err != nil {
		return Principal{}, fmt.Errorf("find principal: %w", err)
	}
	s.noteUse(used)
	return p, nil
}

// tokenUse is what there is to note of a use of an access token.
type tokenUse struct {
	at               time.Time
	access, confirms secret.Hash
	familyUsedAt     time.Time
}

// noteUse notes a use: the first of a pair always, else one in seenEvery.
func (s *Store) noteUse(u tokenUse) {
	if !u.confirms.IsZero() || u.at.Sub(u.familyUsedAt) >= seenEvery {
		s.marks.tokenUsed(u.access, u.confirms)
	}
}

func (s *Store) findPrincipal(ctx context.Context, token secret.Token) (Principal, tokenUse, error) {
	now, hash := s.Now(), token.Hash()
	var principal Principal
	var used tokenUse
	err := s.db.View(ctx, func(r kv.Reader) error {
		t, err := readAccessToken(r, hash)
		if isAbsent(err) {
			return refuseAbsent(r, standInAccessToken, standInFamily, standInClientHead, standInUserHead)
		}
		if err != nil {
			return err
		}
		f, err := readFamily(r, t.family)
		if isAbsent(err) {
			return refuseAbsent(r, standInFamily, standInClientHead, standInUserHead)
		}
		if err != nil {
			return err
		}
		// Judged when all is read: every dead token takes as long as another.
		p, err := readParties(r, t.lineage)
		if !now.Before(t.expiresAt) || !f.revokedAt.IsZero() || !now.Before(f.expiresAt) {
			return ErrNotFound
		}
		principal = Principal{
			Account: t.account, UserID: p.user.Subject(), Username: p.user.Username,
			ClientID: p.client.ID, ClientName: p.client.Name,
			Scope: t.scope, IssuedAt: t.issuedAt, ExpiresAt: t.expiresAt, narrowed: p.client.Scope,
		}
		used = tokenUse{at: now, access: t.hash, confirms: t.confirms, familyUsedAt: f.usedAt}
		return err
	})
	if err != nil {
		return Principal{}, tokenUse{}, goneIsNotFound(err)
	}
	return principal, used, nil
}

// familyName is a family's id as logs show it.
func familyName(id secret.ID) string { return string(secret.AppendCrockford([]byte(familyPrefix), id)) }

const familyPrefix = "fam_"

func readAccessToken(r kv.Reader, h secret.Hash) (accessToken, error) {
	v, err := r.Get(accessTokenKey(h))
	if err != nil {
		return accessToken{}, found(err)
	}
	return decodeAccessToken(h, v)
}

func writeAccessToken(tx kv.Txn, t accessToken) error {
	return tx.Set(accessTokenKey(t.hash), encodeAccessToken(t), t.expiresAt)
}

func encodeAccessToken(t accessToken) []byte {
	e := newEncoder(accessTokenRecord)
	e.id(t.family)
	e.lineage(t.lineage)
	e.byte(byte(t.scope))
	e.time(t.issuedAt)
	e.time(t.expiresAt)
	e.hash(t.confirms)
	return e.b
}

func decodeAccessToken(h secret.Hash, v []byte) (accessToken, error) {
	d := newDecoder("access token", accessTokenRecord, v)
	t := accessToken{hash: h, family: d.id(), lineage: d.lineage(), scope: Scope(d.byte()), issuedAt: d.time(), expiresAt: d.time(), confirms: d.hash()}
	return t, d.done()
}

func goneIsNotFound(err error) error {
	if errors.Is(err, ErrDisabled) { // an engine may wrap what its transaction returned
		return ErrNotFound
	}
	return err
}
