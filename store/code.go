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
	"tollhouse/store/webhook"
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

	amr            Amr // of the sign-in
	factorRevision uint64
}

const (
	codeRecord = 1

	// codeKept is how long a code is kept, used or not.
	codeKept = 24 * time.Hour
	// doubleFire is how long after its first use the same authenticated client may present
	// a code again without revoking the family: browsers load callbacks twice. Our choice.
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
	Ticket      string // the consent screen's own id
	TicketEnds  time.Time
	Epoch       secret.ID // the client's ConsentEpoch on the screen; zero: not to be remembered
	Amr         Amr       // of the deciding session
}

// Allow stores an authorization code and, in the same transaction, that the ticket is
// decided, so that a ticket gives at most one code. If the client remembers consent, so
// does the transaction. When repeated, it returns the same code while that can be redeemed.
// Errors: ErrReplayed if the ticket was denied, ErrExpired if it was allowed and its code
// was redeemed, revoked or has expired; ErrDisabled if the client or user was disabled or
// their tokens were invalidated since; ErrTooOften.
func (s *Store) Allow(ctx context.Context, c Consent) (secret.Token, error) {
	now := s.Now()
	allowed := decided{at: now, ends: c.TicketEnds, answer: answerAllow, nonce: secret.NewCodeNonce(s.random)}
	var token secret.Token
	var code code
	var again bool
	err := s.access(s.naming(ctx, lineageOf(c.Client, c.User).keys), c.User.Account, func(tx kv.Txn) error {
		if _, err := readParties(tx, lineageOf(c.Client, c.User)); err != nil {
			return err
		}
		answered, repeated, err := decide(tx, c, allowed)
		if err != nil {
			return err
		}
		again, token = repeated, s.codeOf(c.Ticket, answered.nonce)
		if code = s.newCode(c, token, now); again {
			return code.stillLives(tx, now)
		}
		if err := remember(tx, c, code.lineage, now); err != nil {
			return err
		}
		return s.createCode(tx, code, now)
	})
	if err != nil {
		return secret.Token{}, fmt.Errorf("allow: %w", err)
	}
	if !again {
		s.grants.Note(code.granted(), 1, now)
	}
	return token, nil
}

func (s *Store) newCode(c Consent, token secret.Token, now time.Time) code {
	return code{
		hash:        token.Hash(),
		lineage:     lineageOf(c.Client, c.User),
		redirectURI: c.RedirectURI, scope: c.Scope, challenge: c.Challenge,
		expiresAt: now.Add(s.Lifetimes().Code), amr: c.Amr, factorRevision: c.User.factorRevision,
	}
}

// stillLives returns ErrExpired unless c was stored before and can be redeemed.
func (c code) stillLives(r kv.Reader, now time.Time) error {
	stored, err := readCode(r, c.hash)
	switch {
	case errors.Is(err, record.ErrNotFound): // revoked
		return record.ErrExpired
	case err != nil:
		return err
	case !stored.usedAt.IsZero() || !now.Before(stored.expiresAt) || stored.lineage != c.lineage:
		return record.ErrExpired
	}
	return nil
}

// createCode counts as the grant: a code gives one family at most, and it is stored too.
func (s *Store) createCode(tx kv.Txn, c code, now time.Time) error {
	if !s.grants.Allows(c.granted(), now) {
		return ErrTooOften
	}
	if err := writeCode(tx, c, now); err != nil {
		return err
	}
	// A code has no family yet, so its user can revoke it only through this index.
	return tx.Set(c.indexKey(), nil, now.Add(codeKept))
}

// Deny stores that the ticket is decided, and revokes what the user allowed the client
// before. When repeated, it changes nothing. A denial that revokes nothing counts like a grant: a
// user can deny any number of times. Errors: ErrReplayed if the ticket was allowed, *BudgetError.
func (s *Store) Deny(ctx context.Context, c Consent) (again bool, err error) {
	now := s.Now()
	denied := decided{at: now, ends: c.TicketEnds, answer: answerDeny}
	err = s.access(ctx, c.User.Account, func(tx kv.Txn) error {
		_, err := readRemembered(tx, c.User.ID, c.Client.ID)
		if err == nil {
			tx.As(kv.Ending)
		} else if !errors.Is(err, record.ErrNotFound) {
			return err
		}
		if _, again, err = decide(tx, c, denied); err != nil || again {
			return err
		}
		_, err = forget(tx, c.User.ID, c.Client.ID, now)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("deny: %w", err)
	}
	return again, nil
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
// first use. Errors: ErrNotFound, ErrMismatch, ErrDisabled, ErrReplayed, ErrExpired,
// *BudgetError.
func (s *Store) RedeemCode(ctx context.Context, r Redemption) (Issued, error) {
	now := s.Now()
	pair := s.newPair()
	var issued Issued
	var refusal error // an outcome, not an error: a replay must write
	n := s.ending(r.By, pair.tail)
	ctx = s.naming(ctx, func() [][]byte {
		return [][]byte{record.CodeKey(r.Code.Hash()), record.ClientKey(r.Client.ID), record.MetaKey(auditHeadName)}
	})
	err := s.tokens.UpdateOf(ctx, s.db, func(tx kv.Txn) (account string, err error) {
		n.Begin()
		issued, refusal = Issued{}, nil
		c, err := readCode(tx, r.Code.Hash())
		if err != nil {
			return "", err
		}
		if err := c.judge(r); err != nil {
			return "", err
		}
		if !c.usedAt.IsZero() {
			refusal, err = c.replayed(tx, n, r.By, now, pair.tail)
			return c.account, err
		}
		tx.As(s.accessClass(c.account))
		if _, err := readParties(tx, c.lineage); err != nil {
			return "", err
		}
		if err := c.signInStands(tx); err != nil {
			return "", err
		}
		if !now.Before(c.expiresAt) {
			return "", record.ErrExpired
		}
		f := s.newFamily(c.lineage, c.scope, now, pair.family)
		f.amr = c.amr
		if issued, err = s.issueFirst(tx, f, pair, now); err != nil {
			return "", err
		}
		c.usedAt, c.family = now, f.id
		if err := writeCode(tx, c, now); err != nil {
			return "", err
		}
		if err := tx.Delete(c.indexKey()); err != nil {
			return "", err
		}
		return c.account, appendAudit(tx, f.auditLine(AuditGrant, c.grantReason(), r.By), now, pair.tail)
	})
	if err = n.Commit(ctx, err); err == nil {
		err = s.reused(ctx, refusal, r.Client.ID)
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
func (c code) replayed(tx kv.Txn, n *webhook.Ending, by By, now time.Time, tail [8]byte) (refusal, err error) {
	if near(now, c.usedAt, doubleFire) {
		return record.ErrReplayed, nil
	}
	tx.As(kv.Ending)
	f, err := readFamily(tx, c.family)
	if errors.Is(err, record.ErrNotFound) {
		return record.ErrReplayed, nil // already ended and removed
	}
	if err != nil || !f.revokedAt.IsZero() {
		return record.ErrReplayed, err
	}
	if err := revokeFamily(tx, n, f, now, ReasonCodeReplayed); err != nil {
		return nil, err
	}
	return recorded{record.ErrReplayed}, appendAudit(tx, f.auditLine(AuditCodeReplay, ReasonCodeReplayed, by), now, tail)
}

// signInStands refuses with ErrDisabled a code that was given before the user's second factor
// changed.
func (c code) signInStands(tx kv.Txn) error {
	u, err := readUser(tx, c.user)
	if err == nil && u.factorRevision != c.factorRevision {
		return record.ErrDisabled
	}
	return goneIsDisabled(err)
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
func (s *Store) revokeCodes(ctx context.Context, db kv.DB, by By, index record.Key, reason string) error {
	_, err := s.eachIndexPage(ctx, index, func(ends [][]byte) (more bool, err error) {
		for batch := range slices.Chunk(ends, revokeBatchMax) {
			if err := s.revokeCodesOf(ctx, db, by, batch, reason); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return err
}

// revokeCodesOf is revokeCodes for index keys, which end in the codes' hashes.
func (s *Store) revokeCodesOf(ctx context.Context, db kv.DB, by By, ends [][]byte, reason string) error {
	now, tails := s.Now(), make([][8]byte, len(ends))
	for i := range tails {
		tails[i] = secret.NewTail(s.random)
	}
	hashOf := func(end []byte) secret.Hash { return secret.Hash(end[len(end)-len(secret.Hash{}):]) }
	return record.UpdateAs(ctx, db, by.ending(), func(tx kv.Txn) error {
		record.Prefetch(tx, ends, func(end []byte) record.Key { return record.CodeKey(hashOf(end)) })
		for i, end := range ends {
			c, err := readCode(tx, hashOf(end))
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
	e := encodeLineage(record.NewEncoder(codeRecord), c.lineage).Str(c.redirectURI).Uint(uint64(c.scope)).Str(c.challenge).
		Time(c.expiresAt).Time(c.usedAt).ID(c.family).Bool(c.remembered)
	if c.amr != AmrUnknown {
		e.Byte(byte(c.amr)).Uint(c.factorRevision)
	}
	return e.B
}

func decodeCode(h secret.Hash, v []byte) (code, error) {
	d := record.NewDecoder("authorization code", codeRecord, v)
	c := code{hash: h, lineage: decodeLineage(&d), redirectURI: d.Str(), scope: decodeScope(&d), challenge: d.Str(),
		expiresAt: d.Time(), usedAt: d.Time(), family: d.ID(), remembered: d.Bool()}
	if d.More() {
		c.amr, c.factorRevision = decodeAmr(&d), d.Uint()
	}
	return c, d.Done()
}
