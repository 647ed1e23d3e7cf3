package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// refreshToken is the stored form of a refresh token. A spent one is known for its own
// lifetime, so that a replay is recognized, and is then expired as any other.
//
// It holds the nonce from which, with its parent and the server key, its pair was
// derived and can be derived again. Spending it erases the nonce.
type refreshToken struct {
	hash      secret.Hash
	family    secret.ID
	parent    secret.Hash
	scope     Scope
	expiresAt time.Time
	nonce     secret.Nonce

	spentAt    time.Time
	pairMadeAt time.Time   // later than spentAt if the first pair was lost
	pairEnds   time.Time   // when the pair's access token expires
	pairScope  Scope       // of the pair's access token
	successor  secret.Hash // the pair's refresh token
	confirmed  bool        // the pair was used
	retiredAt  time.Time
}

const refreshTokenRecord = 1

// Refresh is a client's request to refresh.
type Refresh struct {
	Client Client // authenticated, or remembered
	Token  secret.Token
	Scope  Scope // requested; ScopeUnstated means the original
	By     By
}

// RotateRefresh replaces a refresh token with a new pair (RFC 6749 §6, RFC 9700
// §4.14.2). For a spent token the state of its pair decides: within the grace period
// the same pair is returned again; a pair that was never used is replaced; if it was
// used, the token counts as stolen and its family is revoked. Another client's token
// is refused without any change. Errors: ErrNotFound, ErrMismatch, ErrRevoked,
// ErrDisabled, ErrReplayed, ErrExpired, ErrScope, ErrTooOften, *BudgetError;
// ErrClientChanged for a remembered client, before anything else is looked at.
func (s *Store) RotateRefresh(ctx context.Context, r Refresh) (Issued, error) {
	now := s.Now()
	nonce, tail := secret.NewNonce(s.random), secret.NewTail(s.random)
	next, hash := s.successors(r.Token, nonce), r.Token.Hash()
	var out rotation
	n := s.ending(r.By, tail)
	err := s.tokens.UpdateOf(s.naming(ctx, r.keys(s.recent)), s.db, func(tx kv.Txn) (account string, err error) {
		n.Begin()
		out = rotation{s: s, tx: tx, ending: n, now: now, token: r.Token, hash: hash, asked: r.Scope, by: r.By, tail: tail, next: next}
		err = out.run(r)
		return out.family.account, err
	})
	if err = n.Commit(ctx, err); err == nil {
		err = s.reused(ctx, out.refusal, r.Client.ID)
	}
	if err != nil {
		return Issued{}, fmt.Errorf("rotate refresh: %w", err)
	}
	issued := out.family.issued(out.next.access, out.next.refresh, out.scope, out.ends.Sub(now))
	if issued.Retried = out.again; !out.again {
		s.rotations.Note(out.family.id, 1, now)
		s.recent.noteIssued(issued, kin{out.family.id, out.family.lineage})
	}
	return issued, nil
}

// keys returns those that RotateRefresh reads.
func (r Refresh) keys(rc *recent) func() [][]byte {
	return func() [][]byte {
		h := r.Token.Hash()
		return append(rc.keysOf(h), record.RefreshTokenKey(h), record.ClientKey(r.Client.ID))
	}
}

// successors derives the pair that replaces a refresh token under a nonce.
func (s *Store) successors(old secret.Token, nonce secret.Nonce) pair {
	p := pairOf(s.key.Successors(old, nonce))
	p.nonce = nonce
	return p
}

// rotation is one run of the transaction with its outcome.
type rotation struct {
	s      *Store
	tx     kv.Txn
	ending *webhook.Ending
	now    time.Time
	token  secret.Token
	hash   secret.Hash // the token's
	asked  Scope
	by     By
	tail   [8]byte // for the audit line
	next   pair    // the answer: a new pair, or the earlier one

	family  family
	client  Client // as it is now
	scope   Scope
	ends    time.Time
	again   bool  // the answer is the earlier pair
	refusal error // a refusal that also writes
}

// run decides in the order of the table in docs/internals/decisions.md.
func (o *rotation) run(r Refresh) error {
	if err := r.Client.stands(o.tx); err != nil {
		return err
	}
	t, f, err := readRefreshWithFamily(o.tx, o.hash)
	if err != nil {
		return err
	}
	o.family = f
	o.tx.As(o.s.accessClass(f.account))
	switch {
	case o.family.client != r.Client.ID:
		return errOtherClient
	case !o.family.revokedAt.IsZero():
		return record.ErrRevoked
	}
	both, err := readParties(o.tx, o.family.lineage)
	if err != nil {
		return err
	}
	o.client = both.client
	expired := !o.now.Before(t.expiresAt)
	switch {
	case t.spentAt.IsZero() && expired:
		return record.ErrExpired
	case !t.retiredAt.IsZero():
		return o.revoke(ReasonRetiredReplayed)
	case t.spentAt.IsZero():
		return o.rotate(t)
	}
	made, rotated, err := o.readPair(t)
	switch {
	case err != nil:
		return err
	case !rotated && near(o.now, t.pairMadeAt, o.s.Lifetimes().RefreshGrace):
		return o.repeat(t, made)
	case expired:
		return record.ErrExpired
	case rotated || t.confirmed || o.isConfirming(made):
		return o.revoke(ReasonRefreshReused)
	}
	return o.replacePair(t, made)
}

// readPair derives the pair of a spent token, and reports whether its refresh token was
// spent too; one that is gone was spent and has expired first. With a different server key
// it derives another pair, whose tokens do not exist.
func (o *rotation) readPair(t refreshToken) (made pair, rotated bool, err error) {
	successor, err := readRefreshToken(o.tx, t.successor)
	if record.IsAbsent(err) || err == nil && !successor.spentAt.IsZero() {
		return pair{}, true, nil
	}
	if err != nil {
		return pair{}, false, err
	}
	return o.s.successors(o.token, successor.nonce), false, nil
}

// isConfirming reports whether a use of the pair is recorded but not yet stored.
func (o *rotation) isConfirming(made pair) bool {
	return o.s.lastUsed.isConfirming(made.accessHash) || o.s.lastUsed.isConfirming(made.refreshHash)
}

func (o *rotation) revoke(reason string) error {
	o.refusal = recorded{record.ErrReplayed}
	o.tx.As(kv.Ending)
	if err := revokeFamily(o.tx, o.ending, o.family, o.now, reason); err != nil {
		return err
	}
	return appendAudit(o.tx, o.family.auditLine(AuditRefreshReuse, reason, o.by), o.now, o.tail)
}

// rotate spends a token for the first time.
func (o *rotation) rotate(t refreshToken) error {
	o.scope = t.scope
	if o.asked != ScopeUnstated {
		// RFC 6749 §6: not more than the original grant. Nor more than the client may have
		// now, or the answer would name what the token does not permit.
		if beyond := o.asked.Beyond(t.scope) | o.asked.Beyond(o.client.Scope); beyond != 0 {
			return &ScopeError{Beyond: beyond}
		}
		o.scope = o.asked
	}
	if o.family.imported {
		o.family.imported = false
		if err := errors.Join(writeFamily(o.tx, o.family), partiesUsed(o.tx, o.family.lineage)); err != nil {
			return err
		}
	}
	t.spentAt = o.now
	return o.makePair(t)
}

// repeat returns the earlier pair. With a different server key it cannot be derived.
func (o *rotation) repeat(t refreshToken, made pair) error {
	if err := o.sameScope(t); err != nil {
		return err
	}
	if !o.now.Before(t.pairEnds) {
		return record.ErrExpired // the grace period is at most an access token's lifetime; the family may expire sooner
	}
	o.next = made
	if _, err := readRefreshToken(o.tx, o.next.refreshHash); err != nil {
		return err
	}
	o.again, o.scope, o.ends = true, t.pairScope, t.pairEnds
	return nil
}

// replacePair makes a new pair for a token whose first pair was never used, because
// its answer was lost. The unused refresh token is retired and its access token
// deleted.
func (o *rotation) replacePair(t refreshToken, lost pair) error {
	if err := o.sameScope(t); err != nil {
		return err
	}
	o.scope = t.pairScope
	if err := o.tx.Delete(record.AccessTokenKey(lost.accessHash)); err != nil {
		return err
	}
	unseen, err := readRefreshToken(o.tx, lost.refreshHash)
	if err != nil {
		return err
	}
	unseen.retiredAt, unseen.nonce = o.now, secret.Nonce{}
	if err := writeRefreshToken(o.tx, unseen, o.family.expiresAt); err != nil {
		return err
	}
	return o.makePair(t)
}

// sameScope refuses a repeat that requests a different scope, or one that the client may
// no longer have.
func (o *rotation) sameScope(t refreshToken) error {
	asked := o.asked
	if asked == ScopeUnstated {
		asked = t.scope
	} else if beyond := asked.Beyond(o.client.Scope); beyond != 0 {
		return &ScopeError{Beyond: beyond}
	}
	if asked != t.pairScope {
		return &ScopeError{Repeats: t.pairScope}
	}
	return nil
}

// makePair stores the new pair, and in the spent token where it is.
func (o *rotation) makePair(t refreshToken) (err error) {
	if !o.s.rotations.Allows(o.family.id, o.now) {
		return ErrTooOften
	}
	if o.ends, err = o.s.storePair(o.tx, o.family, o.next, o.scope, t.hash, o.now); err != nil {
		return err
	}
	t.nonce, t.successor = secret.Nonce{}, o.next.refreshHash
	t.pairMadeAt, t.pairEnds, t.pairScope, t.confirmed = o.now, o.ends, o.scope, false
	return writeRefreshToken(o.tx, t, o.family.expiresAt)
}

func readRefreshToken(r kv.Reader, h secret.Hash) (refreshToken, error) {
	return record.Read(r, record.RefreshTokenKey(h), h, decodeRefreshToken)
}

func readRefreshWithFamily(r kv.Reader, h secret.Hash) (refreshToken, family, error) {
	t, err := readRefreshToken(r, h)
	if err != nil {
		return refreshToken{}, family{}, err
	}
	f, err := readFamily(r, t.family)
	return t, f, err
}

// writeRefreshToken stores t until its family ends or, once it was spent or retired, until it
// has expired and a repeat no longer gets its pair.
func writeRefreshToken(tx kv.Txn, t refreshToken, familyEnds time.Time) error {
	ends := familyEnds
	if !t.spentAt.IsZero() || !t.retiredAt.IsZero() {
		ends = later(t.expiresAt, t.pairEnds)
	}
	return tx.Set(record.RefreshTokenKey(t.hash), encodeRefreshToken(t), ends)
}

func encodeRefreshToken(t refreshToken) []byte {
	return record.NewEncoder(refreshTokenRecord).ID(t.family).Hash(t.parent).Uint(uint64(t.scope)).Time(t.expiresAt).
		Time(t.spentAt).Time(t.pairMadeAt).Time(t.pairEnds).Uint(uint64(t.pairScope)).Nonce(t.nonce).Bool(t.confirmed).
		Hash(t.successor).Time(t.retiredAt).B
}

func decodeRefreshToken(h secret.Hash, v []byte) (refreshToken, error) {
	d := record.NewDecoder("refresh token", refreshTokenRecord, v)
	t := refreshToken{hash: h, family: d.ID(), parent: d.Hash(), scope: decodeScope(&d), expiresAt: d.Time(),
		spentAt: d.Time(), pairMadeAt: d.Time(), pairEnds: d.Time(), pairScope: decodeScope(&d), nonce: d.Nonce(),
		confirmed: d.Bool(), successor: d.Hash(), retiredAt: d.Time()}
	return t, d.Done()
}
