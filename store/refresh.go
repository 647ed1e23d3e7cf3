package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// refreshToken is what we keep of a refresh token, until its family ends, so
// that a replay is known as one at any age.
//
// Once spent it holds the nonce from which, with the token itself and the
// server key, the pair that replaced it can be derived again. The write that
// rotates the successor erases the nonce.
type refreshToken struct {
	hash      secret.Hash
	family    secret.ID
	parent    secret.Hash
	scope     Scope
	expiresAt time.Time

	spentAt          time.Time
	pairMadeAt       time.Time // later than spentAt when the first pair was lost
	pairEnds         time.Time // when the pair's access token ends
	pairScope        Scope     // of the pair's access token
	nonce            secret.Nonce
	confirmed        bool // the pair was used
	successorRotated bool // the pair's refresh token was spent in its turn
	retiredAt        time.Time
}

const refreshTokenRecord = 1

// Refresh is what a client presents with a refresh token.
type Refresh struct {
	Client Client // authenticated
	Token  secret.Token
	Scope  Scope // asked for; ScopeUnstated for the original
	By     By
}

// RotateRefresh replaces a refresh token by a new pair (RFC 6749 §6, RFC 9700
// §4.14.2). A token that was spent before is judged by what became of its pair:
// soon after, the identical pair is given again; a pair that nobody has used
// is replaced; one that was used makes the token a stolen one, and its family
// is revoked. Another client's token is refused and nothing changes. Errors:
// ErrNotFound, ErrMismatch, ErrRevoked, ErrDisabled, ErrReplayed, ErrExpired,
// ErrScope.
func (s *Store) RotateRefresh(ctx context.Context, r Refresh) (Issued, error) {
	now := s.Now()
	nonce, tail := secret.NewNonce(), secret.NewTail()
	next := s.successors(r.Token, nonce)
	var out rotation
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		out = rotation{s: s, tx: tx, now: now, token: r.Token, asked: r.Scope, by: r.By, tail: tail, nonce: nonce, next: next}
		return out.run(r)
	})
	if err == nil {
		err = out.refusal
	}
	if err != nil {
		return Issued{}, fmt.Errorf("rotate refresh: %w", err)
	}
	issued := out.family.issued(out.next.access, out.next.refresh, out.scope, out.ends.Sub(now))
	issued.Retried = out.again
	return issued, nil
}

// successors derives the pair that replaces a refresh token under a nonce.
func (s *Store) successors(old secret.Token, nonce secret.Nonce) pair {
	return pair{
		access:  s.key.Successor(secret.AccessToken, old, nonce),
		refresh: s.key.Successor(secret.RefreshToken, old, nonce),
	}
}

// rotation is one run of the transaction, and its outcome.
type rotation struct {
	s     *Store
	tx    kv.Txn
	now   time.Time
	token secret.Token
	asked Scope
	by    By
	tail  [8]byte      // of the audit line
	nonce secret.Nonce // a fresh one
	next  pair         // the answer: derived from it, or the pair made before

	family  family
	scope   Scope
	ends    time.Time
	again   bool  // the answer is the pair made before
	refusal error // a refusal that wrote
}

// run judges a token in the order of the table in docs/decisions.md.
func (o *rotation) run(r Refresh) error {
	t, err := readRefreshToken(o.tx, r.Token.Hash())
	if isAbsent(err) {
		return refuseAbsent(o.tx, standInRefreshToken, standInFamily, standInClientHead, standInUserHead)
	}
	if err != nil {
		return err
	}
	if o.family, err = readFamily(o.tx, t.family); isAbsent(err) {
		return refuseAbsent(o.tx, standInFamily, standInClientHead, standInUserHead)
	}
	if err != nil {
		return err
	}
	_, partiesErr := readParties(o.tx, o.family.lineage) // before all refusals, so that each takes as long
	switch {
	case o.family.client != r.Client.ID:
		return errOtherClient
	case !o.family.revokedAt.IsZero():
		return ErrRevoked
	case partiesErr != nil:
		return partiesErr
	}
	expired := !o.now.Before(t.expiresAt)
	switch {
	case !t.retiredAt.IsZero():
		return o.revoke(ReasonRetiredReplayed)
	case t.spentAt.IsZero() && !expired:
		return o.rotate(t)
	case t.spentAt.IsZero():
		return ErrExpired
	case t.successorRotated:
		return o.revoke(ReasonRefreshReused)
	case near(o.now, t.pairMadeAt, o.s.lives.RefreshGrace):
		return o.repeat(t)
	case t.confirmed || o.s.marks.isConfirming(o.s.successors(o.token, t.nonce).access.Hash()):
		return o.revoke(ReasonRefreshReused)
	case !expired:
		return o.replacePair(t)
	}
	return ErrExpired
}

func (o *rotation) revoke(reason string) error {
	o.refusal = recorded{ErrReplayed}
	if err := revokeFamily(o.tx, o.family, o.now, reason); err != nil {
		return err
	}
	return appendAudit(o.tx, o.family.auditLine(AuditRefreshReuse, reason, o.by), o.now, o.tail)
}

// rotate spends a token for the first time.
func (o *rotation) rotate(t refreshToken) error {
	o.scope = t.scope
	if o.asked != ScopeUnstated {
		// RFC 6749 §6: no more than what was granted.
		if !t.scope.Covers(o.asked) {
			return ErrScope
		}
		o.scope = o.asked
	}
	if err := o.forgetParent(t.parent); err != nil {
		return err
	}
	t.spentAt = o.now
	return o.makePair(t)
}

// forgetParent makes the pair that t came in underivable: t is being rotated,
// so a repeat of its parent can only be a theft.
func (o *rotation) forgetParent(parent secret.Hash) error {
	if parent.IsZero() {
		return nil
	}
	p, err := readRefreshToken(o.tx, parent)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	p.successorRotated, p.nonce = true, secret.Nonce{}
	return writeRefreshToken(o.tx, p, o.family.expiresAt)
}

// repeat answers with the pair that was made before. Under another server key
// than it was made with it cannot be derived, and what would be is no token.
func (o *rotation) repeat(t refreshToken) error {
	if err := o.sameScope(t); err != nil {
		return err
	}
	if !o.now.Before(t.pairEnds) {
		return ErrExpired // the grace is never longer than an access token lives; the family may end sooner
	}
	o.next = o.s.successors(o.token, t.nonce)
	if _, err := readRefreshToken(o.tx, o.next.refresh.Hash()); err != nil {
		return err
	}
	o.again, o.scope, o.ends = true, t.pairScope, t.pairEnds
	return nil
}

// replacePair makes a fresh pair for a token whose first one nobody has seen:
// the answer had been lost. The unseen refresh token is retired, its access
// token dies.
func (o *rotation) replacePair(t refreshToken) error {
	if err := o.sameScope(t); err != nil {
		return err
	}
	o.scope = t.pairScope
	lost := o.s.successors(o.token, t.nonce)
	if err := o.tx.Delete(accessTokenKey(lost.access.Hash())); err != nil {
		return err
	}
	unseen, err := readRefreshToken(o.tx, lost.refresh.Hash())
	if err != nil {
		return err
	}
	unseen.retiredAt = o.now
	if err := writeRefreshToken(o.tx, unseen, o.family.expiresAt); err != nil {
		return err
	}
	return o.makePair(t)
}

// sameScope refuses a repeat that asks for another scope than the first did.
func (o *rotation) sameScope(t refreshToken) error {
	asked := o.asked
	if asked == ScopeUnstated {
		asked = t.scope
	}
	if asked != t.pairScope {
		return ErrScope
	}
	return nil
}

// makePair stores the fresh pair and, with the spent token, how to derive it.
func (o *rotation) makePair(t refreshToken) (err error) {
	if o.ends, err = o.s.storePair(o.tx, o.family, o.next, o.scope, t.hash, o.now); err != nil {
		return err
	}
	t.nonce, t.pairMadeAt, t.pairEnds, t.pairScope, t.confirmed = o.nonce, o.now, o.ends, o.scope, false
	return writeRefreshToken(o.tx, t, o.family.expiresAt)
}

func readRefreshToken(r kv.Reader, h secret.Hash) (refreshToken, error) {
	v, err := r.Get(refreshTokenKey(h))
	if err != nil {
		return refreshToken{}, found(err)
	}
	return decodeRefreshToken(h, v)
}

// writeRefreshToken stores t until its family ends.
func writeRefreshToken(tx kv.Txn, t refreshToken, familyEnds time.Time) error {
	return tx.Set(refreshTokenKey(t.hash), encodeRefreshToken(t), familyEnds)
}

func encodeRefreshToken(t refreshToken) []byte {
	e := newEncoder(refreshTokenRecord)
	e.id(t.family)
	e.hash(t.parent)
	e.byte(byte(t.scope))
	e.time(t.expiresAt)
	e.time(t.spentAt)
	e.time(t.pairMadeAt)
	e.time(t.pairEnds)
	e.byte(byte(t.pairScope))
	e.nonce(t.nonce)
	e.bool(t.confirmed)
	e.bool(t.successorRotated)
	e.time(t.retiredAt)
	return e.b
}

func decodeRefreshToken(h secret.Hash, v []byte) (refreshToken, error) {
	d := newDecoder("refresh token", refreshTokenRecord, v)
	t := refreshToken{hash: h, family: d.id(), parent: d.hash(), scope: Scope(d.byte()), expiresAt: d.time(),
		spentAt: d.time(), pairMadeAt: d.time(), pairEnds: d.time(), pairScope: Scope(d.byte()), nonce: d.nonce(),
		confirmed: d.bool(), successorRotated: d.bool(), retiredAt: d.time()}
	return t, d.done()
}
