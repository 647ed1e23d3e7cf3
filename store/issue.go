package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Issued is the result of a grant.
type Issued struct {
	AccessToken  secret.Token
	RefreshToken secret.Token  // zero if the client acts for itself
	ExpiresIn    time.Duration // lifetime of the access token
	Scope        Scope         // of the access token
	FamilyID     string
	UserID       string // the user's Subject
	Account      string
	Retried      bool // the same pair as an earlier answer
}

// pair is a new access and refresh token and a new family id, drawn before the
// transaction.
type pair struct {
	access, refresh         secret.Token
	accessHash, refreshHash secret.Hash  // not computed while others wait for the transaction
	nonce                   secret.Nonce // from which they are derived, if they are
	family                  secret.ID
	tail                    [8]byte // for the audit line
}

func pairOf(access, refresh secret.Token) pair {
	return pair{access: access, refresh: refresh, accessHash: access.Hash(), refreshHash: refresh.Hash()}
}

func (s *Store) newPair() pair { return newPairFrom(s.random) }

func newPairFrom(random secret.Source) pair {
	p := pairOf(secret.New(random, secret.AccessToken), secret.New(random, secret.RefreshToken))
	p.family, p.tail = secret.NewID(random), secret.NewTail(random)
	return p
}

func lineageOf(c Client, u User) lineage {
	return lineage{client: c.ID, clientGeneration: c.Generation, user: u.ID, userGeneration: u.Generation, account: u.Account, accountGeneration: u.accountNow.Generation}
}

// IssueForPassword issues the first tokens of a new family to an authenticated client
// for a user who proved the password (RFC 6749 §4.3). Errors: ErrDisabled if one of them was
// disabled in the meantime; ErrFactorNeeded; ErrTooOften, *BudgetError.
func (s *Store) IssueForPassword(ctx context.Context, by By, c Client, u User, scope Scope) (Issued, error) {
	now, pair := s.Now(), s.newPair()
	f := s.newFamily(lineageOf(c, u), scope, now, pair.family)
	f.amr = AmrPassword
	var issued Issued
	err := s.access(s.naming(ctx, f.lineage.keys), f.account, func(tx kv.Txn) (err error) {
		if _, err = readParties(tx, f.lineage); err != nil {
			return err
		}
		current, err := record.Read(tx, record.UserKey(u.ID), u.ID, decodeUser)
		if err != nil {
			return err
		}
		if s.NeedsFactor(current) {
			return ErrFactorNeeded
		}
		if !s.grants.Allows(f.granted(), now) {
			return ErrTooOften
		}
		if issued, err = s.issueFirst(tx, f, pair, now); err != nil {
			return err
		}
		return appendAudit(tx, f.auditLine(AuditGrant, string(GrantPassword), by), now, pair.tail)
	})
	if err != nil {
		return Issued{}, fmt.Errorf("issue for password: %w", err)
	}
	s.grants.Note(f.granted(), 1, now)
	return issued, nil
}

// platformTokenMax is the longest that a token of a platform client lives.
const platformTokenMax = time.Hour

// IssueForClient issues an access token, and no other, to an authenticated client that acts
// for its account without a user (RFC 6749 §4.4). A platform client has none: its token acts
// for the account that is given, or with "" for the one that each request names.
// Errors: ErrMismatch if it may not; ErrDisabled if the client or its account is no longer
// usable; ErrUnknownAccount; ErrTooOften, *BudgetError.
func (s *Store) IssueForClient(ctx context.Context, by By, c Client, account string, scope Scope) (Issued, error) {
	lifetime, charged := s.Lifetimes().AccessToken, ""
	if c.Platform {
		lifetime = min(lifetime, platformTokenMax)
	} else {
		account, charged = c.Account, c.Account
	}
	if c.Public || account == "" && !c.Platform || !c.Allows(GrantClientCredentials) {
		return Issued{}, fmt.Errorf("issue for client: %w", record.ErrMismatch)
	}
	now, pair := s.Now(), s.newPair()
	f := s.newFamily(lineage{client: c.ID, clientGeneration: c.Generation, account: account}, scope, now, pair.family)
	f.expiresAt = now.Add(lifetime)
	err := s.access(s.naming(ctx, f.lineage.keys), charged, func(tx kv.Txn) error {
		if account != "" {
			a, err := knownAccount(tx, account)
			if errors.Is(err, ErrUnknownAccount) && !c.Platform {
				err = record.ErrDisabled
			}
			if err != nil {
				return err
			}
			f.accountGeneration = a.Generation
		}
		if _, err := readParties(tx, f.lineage); err != nil {
			return err
		}
		if !s.grants.Allows(granted{client: c.ID}, now) {
			return ErrTooOften
		}
		if err := createFamily(tx, f); err != nil {
			return err
		}
		err := writeAccessToken(tx, accessToken{lineage: f.lineage, hash: pair.accessHash, family: f.id, scope: scope, issuedAt: now, expiresAt: f.expiresAt})
		if err != nil {
			return err
		}
		return appendAudit(tx, f.auditLine(AuditGrant, string(GrantClientCredentials), by), now, pair.tail)
	})
	if err != nil {
		return Issued{}, fmt.Errorf("issue for client: %w", err)
	}
	s.grants.Note(granted{client: c.ID}, 1, now)
	return f.issued(pair.access, secret.Token{}, scope, lifetime), nil
}

func (s *Store) newFamily(l lineage, scope Scope, now time.Time, id secret.ID) family {
	return family{lineage: l, id: id, scope: scope, createdAt: now, expiresAt: now.Add(s.Lifetimes().Family)}
}

func (s *Store) issueFirst(tx kv.Txn, f family, p pair, now time.Time) (Issued, error) {
	if err := createFamily(tx, f); err != nil {
		return Issued{}, err
	}
	ends, err := s.storePair(tx, f, p, f.scope, secret.Hash{}, now)
	if err != nil {
		return Issued{}, err
	}
	return f.issued(p.access, p.refresh, f.scope, ends.Sub(now)), nil
}

// storePair stores an access and a refresh token and returns when the access token
// expires. parent is the refresh token that they replace, if any.
func (s *Store) storePair(tx kv.Txn, f family, p pair, accessScope Scope, parent secret.Hash, now time.Time) (time.Time, error) {
	ends := earlier(now.Add(s.Lifetimes().AccessToken), f.expiresAt)
	err := writeAccessToken(tx, accessToken{
		lineage: f.lineage, hash: p.accessHash, family: f.id, scope: accessScope,
		issuedAt: now, expiresAt: ends, confirms: parent,
	})
	if err != nil {
		return time.Time{}, err
	}
	return ends, writeRefreshToken(tx, refreshToken{
		hash: p.refreshHash, family: f.id, parent: parent, scope: f.scope,
		expiresAt: earlier(now.Add(s.Lifetimes().RefreshToken), f.expiresAt), nonce: p.nonce,
	}, f.expiresAt)
}

func (f family) issued(access, refresh secret.Token, scope Scope, expiresIn time.Duration) Issued {
	user := User{ID: f.user}
	return Issued{AccessToken: access, RefreshToken: refresh, ExpiresIn: expiresIn, Scope: scope,
		FamilyID: familyName(f.id), UserID: user.Subject(), Account: f.account}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// near reports whether two times are within span of each other. Grace periods use it
// because concurrent callers may read the clock slightly before their start, and
// because a clock set back must not extend them.
func near(a, b time.Time, span time.Duration) bool { return a.Sub(b).Abs() <= span }
