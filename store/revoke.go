package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// RevokeToken ends a token of an authenticated client (RFC 7009 §2.1). A
// refresh token ends its family, and with it every token of the authorization;
// an access token ends alone. A token that is unknown, dead or another client's
// changes nothing and is no error: the answer must not tell which it was.
func (s *Store) RevokeToken(ctx context.Context, by By, c Client, text string) error {
	now, tail := s.Now(), secret.NewTail()
	var revoke func(tx kv.Txn) error
	if token, ok := secret.Parse(secret.RefreshToken, text); ok {
		revoke = func(tx kv.Txn) error { return revokeByRefresh(tx, by, c, token.Hash(), now, tail) }
	} else if token, ok := secret.Parse(secret.AccessToken, text); ok {
		revoke = func(tx kv.Txn) error { return revokeAccess(tx, by, c, token.Hash(), now, tail) }
	} else {
		return nil
	}
	if err := s.db.Update(ctx, revoke); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("revoke token: %w", err)
	}
	return nil
}

func revokeByRefresh(tx kv.Txn, by By, c Client, h secret.Hash, now time.Time, tail [8]byte) error {
	t, err := readRefreshToken(tx, h)
	if isAbsent(err) {
		return refuseAbsent(tx, standInFamily)
	}
	if err != nil {
		return err
	}
	f, err := readFamily(tx, t.family)
	if err != nil {
		return err
	}
	if f.client != c.ID || !f.revokedAt.IsZero() {
		return nil
	}
	if err := revokeFamily(tx, f, now, ReasonRevokedByClient); err != nil {
		return err
	}
	return appendAudit(tx, f.auditLine(AuditRevoke, ReasonRevokedByClient, by), now, tail)
}

func revokeAccess(tx kv.Txn, by By, c Client, h secret.Hash, now time.Time, tail [8]byte) error {
	t, err := readAccessToken(tx, h)
	if isAbsent(err) {
		return refuseAbsent(tx, standInFamily)
	}
	if err != nil {
		return err
	}
	f, err := readFamily(tx, t.family)
	if err != nil {
		return err
	}
	if t.client != c.ID || !now.Before(t.expiresAt) || !f.revokedAt.IsZero() {
		return nil
	}
	// Our choice: who revokes an access token has received it, and its use may be
	// noted but not written yet. A late repeat of the refresh that made it is a
	// theft, and no lost answer.
	if err := confirm(tx, t, f); err != nil {
		return err
	}
	// The record stays away: a repeated refresh derives the same text again, and
	// writes nothing.
	if err := tx.Delete(accessTokenKey(h)); err != nil {
		return err
	}
	return appendAudit(tx, f.auditLine(AuditRevoke, ReasonRevokedByClient, by), now, tail)
}
