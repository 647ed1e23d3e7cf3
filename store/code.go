package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// code is what we keep of an authorization code. It stays for codeKept after
// its use, so that a replay is known as one.
type code struct {
	lineage
	hash        secret.Hash
	redirectURI string
	scope       Scope
	challenge   string // S256 code challenge, "" when the request had none
	expiresAt   time.Time
	usedAt      time.Time
	family      secret.ID // of the tokens that it gave
}

const (
	codeRecord    = 1
	decidedRecord = 1

	// codeKept is how long a code is kept, used or not.
	codeKept = 24 * time.Hour
	// doubleFire is how long after its first use a code may come again with the
	// right verifier and be refused without harm: a page that loads twice sends
	// it twice, and PKCE proves that both came from one place. Our choice.
	doubleFire = 10 * time.Second

	verifierSizeMin = 43 // RFC 7636 §4.1
	verifierSizeMax = 128
)

// Consent is a user's decision to allow a client.
type Consent struct {
	Client      Client
	User        User // as the session that decides knows it
	RedirectURI string
	Scope       Scope
	Challenge   string
	Ticket      secret.Hash // of the consent screen
	TicketEnds  time.Time
}

// Allow stores an authorization code and, in the same transaction, that the
// ticket is decided: one ticket gives one code at most. Errors: ErrReplayed for
// a ticket decided before, ErrDisabled when client or user were disabled or
// their tokens ended since.
func (s *Store) Allow(ctx context.Context, c Consent) (secret.Token, error) {
	token, now := secret.New(secret.Code), s.Now()
	record := code{
		hash:        token.Hash(),
		lineage:     lineageOf(c.Client, c.User),
		redirectURI: c.RedirectURI, scope: c.Scope, challenge: c.Challenge,
		expiresAt: now.Add(s.lives.Code),
	}
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		if _, err := readParties(tx, record.lineage); err != nil {
			return err
		}
		if err := decide(tx, c.Ticket, now, c.TicketEnds); err != nil {
			return err
		}
		if err := writeCode(tx, record, now); err != nil {
			return err
		}
		// Until it is redeemed a code has no family by which its user could find
		// it and take it back.
		return tx.Set(record.indexKey(), nil, now.Add(codeKept))
	})
	if err != nil {
		return secret.Token{}, fmt.Errorf("allow: %w", err)
	}
	return token, nil
}

// Deny stores that the ticket is decided, and nothing else. Errors: ErrReplayed.
func (s *Store) Deny(ctx context.Context, ticket secret.Hash, ends time.Time) error {
	now := s.Now()
	err := s.db.Update(ctx, func(tx kv.Txn) error { return decide(tx, ticket, now, ends) })
	if err != nil {
		return fmt.Errorf("deny: %w", err)
	}
	return nil
}

func decide(tx kv.Txn, ticket secret.Hash, now, ends time.Time) error {
	_, err := tx.Get(decidedKey(ticket))
	if err == nil {
		return ErrReplayed
	}
	if !isAbsent(err) {
		return err
	}
	e := newEncoder(decidedRecord)
	e.time(now)
	e.time(ends)
	return tx.Set(decidedKey(ticket), e.b, ends)
}

// Redemption is what a client presents with a code.
type Redemption struct {
	Client      Client // authenticated
	Code        secret.Token
	RedirectURI string
	Verifier    string // "" when none was sent
	By          By
}

// RedeemCode spends a code and issues the first tokens of a new family. Judged
// in this order: ownership, redirect URI and PKCE, used before, expired. A
// check that fails leaves the code as it was, but for a replay, which revokes
// the family of its first use. Errors: ErrNotFound, ErrMismatch, ErrDisabled,
// ErrReplayed, ErrExpired.
func (s *Store) RedeemCode(ctx context.Context, r Redemption) (Issued, error) {
	now := s.Now()
	pair := newPair()
	var issued Issued
	var refusal error // a replay must write, so it is an outcome and no error of the transaction
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		issued, refusal = Issued{}, nil
		c, err := readCode(tx, r.Code.Hash())
		if err != nil {
			return err
		}
		if err := c.judge(r); err != nil {
			return err
		}
		if !c.usedAt.IsZero() {
			refusal, err = c.replayed(tx, r.By, now, pair.tail)
			return err
		}
		if _, err := readParties(tx, c.lineage); err != nil {
			return err
		}
		if !now.Before(c.expiresAt) {
			return ErrExpired
		}
		f := s.newFamily(c.lineage, c.scope, now, pair.family)
		if issued, err = s.issueFirst(tx, f, pair, now); err != nil {
			return err
		}
		c.usedAt, c.family = now, f.id
		if err := writeCode(tx, c, now); err != nil {
			return err
		}
		if err := tx.Delete(c.indexKey()); err != nil {
			return err
		}
		return appendAudit(tx, f.auditLine(AuditGrant, string(GrantAuthorizationCode), r.By), now, pair.tail)
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return Issued{}, fmt.Errorf("redeem code: %w", err)
	}
	return issued, nil
}

// replayed answers a second use. It ends what the first one gave, once, and
// records that; whoever goes on only repeats himself.
func (c code) replayed(tx kv.Txn, by By, now time.Time, tail [8]byte) (refusal, err error) {
	if c.challenge != "" && near(now, c.usedAt, doubleFire) {
		return ErrReplayed, nil
	}
	f, err := readFamily(tx, c.family)
	if errors.Is(err, ErrNotFound) {
		return ErrReplayed, nil // it has ended, and was cleared away
	}
	if err != nil || !f.revokedAt.IsZero() {
		return ErrReplayed, err
	}
	if err := revokeFamily(tx, f, now, ReasonCodeReplayed); err != nil {
		return nil, err
	}
	return recorded{ErrReplayed}, appendAudit(tx, f.auditLine(AuditCodeReplay, ReasonCodeReplayed, by), now, tail)
}

// judge refuses what does not belong to the code.
func (c code) judge(r Redemption) error {
	if c.client != r.Client.ID {
		return errOtherClient
	}
	// RFC 6749 §4.1.3: redirect_uri must equal the one in the authorization request.
	if !secret.EqualText(c.redirectURI, r.RedirectURI) {
		return errOtherRedirect
	}
	return c.judgeVerifier(r.Verifier)
}

func (c code) judgeVerifier(verifier string) error {
	// RFC 9700 §4.8.2: a verifier for a code that has no challenge is the mark
	// of a challenge stripped on the way.
	if (c.challenge == "") != (verifier == "") {
		return errOtherVerifier
	}
	if verifier == "" {
		return nil
	}
	// RFC 7636 §4.6
	if !isVerifier(verifier) || !secret.EqualText(secret.S256(verifier), c.challenge) {
		return errOtherVerifier
	}
	return nil
}

// isVerifier checks the form of RFC 7636 §4.1.
func isVerifier(v string) bool {
	if len(v) < verifierSizeMin || len(v) > verifierSizeMax {
		return false
	}
	for i := range len(v) {
		c := v[i]
		unreserved := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
		if !unreserved {
			return false
		}
	}
	return true
}

// revokeCodes deletes codes that were not redeemed yet: with one that is gone
// nothing can be had. A line tells of each that could still have been redeemed.
func (s *Store) revokeCodes(ctx context.Context, by By, hashes [][]byte) error {
	now, tails := s.Now(), make([][8]byte, len(hashes))
	for i := range tails {
		tails[i] = secret.NewTail()
	}
	return s.db.Update(ctx, func(tx kv.Txn) error {
		for i, h := range hashes {
			c, err := readCode(tx, secret.Hash(h))
			if errors.Is(err, ErrNotFound) || err == nil && !c.usedAt.IsZero() {
				continue // it has expired, or was redeemed meanwhile
			}
			if err != nil {
				return err
			}
			if err := deleteKeys(tx, codeKey(c.hash), c.indexKey()); err != nil {
				return err
			}
			if !now.Before(c.expiresAt) {
				continue
			}
			if err := appendAudit(tx, c.auditLine(AuditRevoke, ReasonRevokedByUser, by), now, tails[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// auditLine tells of a code that was never redeemed, and so has no family.
func (c code) auditLine(what Audited, reason string, by By) AuditLine {
	user := User{ID: c.user}
	return AuditLine{What: what, Reason: reason, By: by, ClientID: c.client, UserID: user.Subject(), AccountID: c.account}
}

// indexKey is where a code is listed until it is redeemed.
func (c code) indexKey() key { return userCodesKey(c.user, c.client).hash(c.hash) }

func readCode(r kv.Reader, h secret.Hash) (code, error) {
	v, err := r.Get(codeKey(h))
	if err != nil {
		return code{}, found(err)
	}
	return decodeCode(h, v)
}

func writeCode(tx kv.Txn, c code, now time.Time) error {
	return tx.Set(codeKey(c.hash), encodeCode(c), now.Add(codeKept))
}

func encodeCode(c code) []byte {
	e := newEncoder(codeRecord)
	e.lineage(c.lineage)
	e.str(c.redirectURI)
	e.byte(byte(c.scope))
	e.str(c.challenge)
	e.time(c.expiresAt)
	e.time(c.usedAt)
	e.id(c.family)
	return e.b
}

func decodeCode(h secret.Hash, v []byte) (code, error) {
	d := newDecoder("authorization code", codeRecord, v)
	c := code{hash: h, lineage: d.lineage(), redirectURI: d.str(), scope: Scope(d.byte()), challenge: d.str(),
		expiresAt: d.time(), usedAt: d.time(), family: d.id()}
	return c, d.done()
}
