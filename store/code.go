package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// code is the stored form of an authorization code. It stays for codeKept after its
// use, so that a replay is recognized.
type code struct {
	lineage
	hash        secret.Hash
	redirectURI string
	scope       Scope
	challenge   string // S256 code challenge, "" if the request had none
	expiresAt   time.Time
	usedAt      time.Time
	family      secret.ID // of the tokens issued for it
	remembered  bool      // given without asking the user
}

const (
	codeRecord           = 1
	codeRecordRemembered = 2 // of a code that was given without asking
	decidedRecord        = 1

	// codeKept is how long a code is kept, used or not.
	codeKept = 24 * time.Hour
	// doubleFire is how long after its first use a code may be presented again with
	// the right verifier without revoking the family: a page that loads twice sends it
	// twice, and PKCE proves that both requests have one source. Our choice.
	doubleFire = 10 * time.Second

	verifierSizeMin = 43 // RFC 7636 §4.1
	verifierSizeMax = 128
)

// Consent is a user's decision to allow a client.
type Consent struct {
	Client      Client
	User        User // the user of the deciding session
	RedirectURI string
	Scope       Scope
	Challenge   string
	Ticket      secret.Hash // of the consent screen
	TicketEnds  time.Time
	Epoch       secret.ID // the client's ConsentEpoch on the screen; zero: not to be remembered
}

// Allow stores an authorization code and, in the same transaction, that the ticket is
// decided, so that a ticket gives at most one code. If the client remembers consent, so
// does the transaction. Errors: ErrReplayed if the ticket
// was decided before, ErrDisabled if the client or user was disabled or their tokens
// ended since; ErrTooOften.
func (s *Store) Allow(ctx context.Context, c Consent) (secret.Token, error) {
	now := s.Now()
	code, token := s.newCode(c, now)
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		if _, err := readParties(tx, code.lineage); err != nil {
			return err
		}
		if err := decide(tx, c.Ticket, now, c.TicketEnds); err != nil {
			return err
		}
		if err := remember(tx, c, code.lineage, now); err != nil {
			return err
		}
		return s.createCode(tx, code, now)
	})
	if err != nil {
		return secret.Token{}, fmt.Errorf("allow: %w", err)
	}
	s.grants.note(code.granted(), now)
	return token, nil
}

func (s *Store) newCode(c Consent, now time.Time) (code, secret.Token) {
	token := secret.New(s.random, secret.Code)
	return code{
		hash:        token.Hash(),
		lineage:     lineageOf(c.Client, c.User),
		redirectURI: c.RedirectURI, scope: c.Scope, challenge: c.Challenge,
		expiresAt: now.Add(s.lives.Code),
	}, token
}

// createCode counts as the grant: a code gives one family at most, and it is stored too.
func (s *Store) createCode(tx kv.Txn, c code, now time.Time) error {
	if !s.grants.allows(c.granted(), now) {
		return ErrTooOften
	}
	if err := writeCode(tx, c, now); err != nil {
		return err
	}
	// A code has no family yet, so its user can revoke it only through this index.
	return tx.Set(c.indexKey(), nil, now.Add(codeKept))
}

// Deny stores that the ticket is decided, and ends what the user allowed the client
// before. Errors: ErrReplayed.
func (s *Store) Deny(ctx context.Context, c Consent) error {
	now := s.Now()
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		if err := decide(tx, c.Ticket, now, c.TicketEnds); err != nil {
			return err
		}
		_, err := forget(tx, c.User.ID, c.Client.ID, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("deny: %w", err)
	}
	return nil
}

func decide(tx kv.Txn, ticket secret.Hash, now, ends time.Time) error {
	_, err := tx.Get(record.DecidedKey(ticket))
	if err == nil {
		return record.ErrReplayed
	}
	if !record.IsAbsent(err) {
		return err
	}
	e := record.NewEncoder(decidedRecord).Time(now).Time(ends)
	return tx.Set(record.DecidedKey(ticket), e.B, ends)
}

// Redemption is a client's request to redeem a code.
type Redemption struct {
	Client      Client // authenticated
	Code        secret.Token
	RedirectURI string
	Verifier    string // "" when none was sent
	By          By
}

// RedeemCode redeems a code and issues the first tokens of a new family. It checks, in
// this order, ownership, redirect URI and PKCE, earlier use, and expiry. A failed
// check leaves the code unchanged, except that a replay revokes the family of the
// first use. Errors: ErrNotFound, ErrMismatch, ErrDisabled, ErrReplayed, ErrExpired.
func (s *Store) RedeemCode(ctx context.Context, r Redemption) (Issued, error) {
	now := s.Now()
	pair := s.newPair()
	var issued Issued
	var refusal error // an outcome, not an error: a replay must write
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
			return record.ErrExpired
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
		return appendAudit(tx, f.auditLine(AuditGrant, c.grantReason(), r.By), now, pair.tail)
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return Issued{}, fmt.Errorf("redeem code: %w", err)
	}
	return issued, nil
}

// ReasonRemembered is the reason of the audit line for a grant without a consent screen.
const ReasonRemembered = string(GrantAuthorizationCode) + ", remembered"

func (c code) grantReason() string {
	if c.remembered {
		return ReasonRemembered
	}
	return string(GrantAuthorizationCode)
}

// replayed handles a second use. It revokes the first use's family and records that
// once; further replays change nothing.
func (c code) replayed(tx kv.Txn, by By, now time.Time, tail [8]byte) (refusal, err error) {
	if c.challenge != "" && near(now, c.usedAt, doubleFire) {
		return record.ErrReplayed, nil
	}
	f, err := readFamily(tx, c.family)
	if errors.Is(err, record.ErrNotFound) {
		return record.ErrReplayed, nil // already ended and removed
	}
	if err != nil || !f.revokedAt.IsZero() {
		return record.ErrReplayed, err
	}
	if err := revokeFamily(tx, f, now, ReasonCodeReplayed); err != nil {
		return nil, err
	}
	return recorded{record.ErrReplayed}, appendAudit(tx, f.auditLine(AuditCodeReplay, ReasonCodeReplayed, by), now, tail)
}

// judge checks that the request fits the code.
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
	// RFC 9700 §4.8.2: a verifier for a code without a challenge means that an
	// attacker has removed the challenge.
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

// isVerifier checks the syntax of RFC 7636 §4.1.
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

// revokeCodes deletes the unredeemed codes of an index, with an audit line for each that
// could still have been redeemed.
func (s *Store) revokeCodes(ctx context.Context, by By, index record.Key, reason string) error {
	_, err := s.eachIndexPage(ctx, index, func(ends [][]byte) (more bool, err error) {
		for batch := range slices.Chunk(ends, revokeBatchMax) {
			if err := s.revokeCodesOf(ctx, by, batch, reason); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return err
}

// revokeCodesOf is revokeCodes for index keys, which end in the codes' hashes.
func (s *Store) revokeCodesOf(ctx context.Context, by By, ends [][]byte, reason string) error {
	now, tails := s.Now(), make([][8]byte, len(ends))
	for i := range tails {
		tails[i] = secret.NewTail(s.random)
	}
	return s.db.Update(ctx, func(tx kv.Txn) error {
		for i, end := range ends {
			c, err := readCode(tx, secret.Hash(end[len(end)-len(secret.Hash{}):]))
			if errors.Is(err, record.ErrNotFound) || err == nil && !c.usedAt.IsZero() {
				continue // expired or redeemed in the meantime
			}
			if err != nil {
				return err
			}
			if err := record.DeleteKeys(tx, record.CodeKey(c.hash), c.indexKey()); err != nil {
				return err
			}
			if !now.Before(c.expiresAt) {
				continue
			}
			if err := appendAudit(tx, c.auditLine(AuditRevoke, reason, by), now, tails[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// auditLine returns an audit line about an unredeemed code, which has no family.
func (c code) auditLine(what Audited, reason string, by By) AuditLine {
	user := User{ID: c.user}
	return AuditLine{What: what, Reason: reason, By: by, ClientID: c.client, UserID: user.Subject(), AccountID: c.account}
}

// indexKey is the index entry of a code until it is redeemed.
func (c code) indexKey() record.Key { return record.UserCodesKey(c.user, c.client).Hash(c.hash) }

func readCode(r kv.Reader, h secret.Hash) (code, error) {
	return record.Read(r, record.CodeKey(h), h, decodeCode)
}

func writeCode(tx kv.Txn, c code, now time.Time) error {
	return tx.Set(record.CodeKey(c.hash), encodeCode(c), now.Add(codeKept))
}

func encodeCode(c code) []byte {
	version := byte(codeRecord)
	if c.remembered {
		version = codeRecordRemembered
	}
	e := encodeLineage(record.NewEncoder(version), c.lineage).Str(c.redirectURI).Byte(byte(c.scope)).Str(c.challenge).
		Time(c.expiresAt).Time(c.usedAt).ID(c.family)
	if c.remembered {
		e.Bool(true)
	}
	return e.B
}

func decodeCode(h secret.Hash, v []byte) (code, error) {
	version := byte(codeRecord)
	if len(v) > 0 && v[0] == codeRecordRemembered {
		version = codeRecordRemembered
	}
	d := record.NewDecoder("authorization code", version, v)
	c := code{hash: h, lineage: decodeLineage(&d), redirectURI: d.Str(), scope: Scope(d.Byte()), challenge: d.Str(),
		expiresAt: d.Time(), usedAt: d.Time(), family: d.ID()}
	if version == codeRecordRemembered {
		if c.remembered = d.Bool(); !c.remembered {
			d.Fail("has the longer version without a member of it")
		}
	}
	return c, d.Done()
}
