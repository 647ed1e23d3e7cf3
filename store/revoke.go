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

// RevokeToken revokes a token of an authenticated client (RFC 7009 §2.1). A refresh
// token revokes its family; an access token is revoked alone. Either disables the webhook endpoints
// that the family created, also when the token had expired before. An unknown or foreign
// token changes nothing and is no error, because the answer must not reveal which it was.
func (s *Store) RevokeToken(ctx context.Context, by By, c Client, text string) error {
	now, tail := s.Now(), secret.NewTail(s.random)
	kind, token, err := s.kindOf(ctx, text, secret.RefreshToken, secret.AccessToken)
	if err == nil {
		revoke := revokeByRefresh
		if kind == secret.AccessToken {
			revoke = revokeAccess
		}
		err = s.revoke(ctx, kv.Ending, by, tail, func(tx kv.Txn, n *webhook.Ending) error { return revoke(tx, n, by, c, token.Hash(), now, tail) })
	}
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return fmt.Errorf("revoke token: %w", err)
	}
	return nil
}

func revokeByRefresh(tx kv.Txn, n *webhook.Ending, by By, c Client, h secret.Hash, now time.Time, tail [8]byte) error {
	t, err := readRefreshToken(tx, h)
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
	if err := revokeFamily(tx, n, f, now, ReasonRevokedByClient); err != nil {
		return err
	}
	return appendAudit(tx, f.auditLine(AuditRevoke, ReasonRevokedByClient, by), now, tail)
}

func revokeAccess(tx kv.Txn, n *webhook.Ending, by By, c Client, h secret.Hash, now time.Time, tail [8]byte) error {
	t, err := readAccessToken(tx, h)
	if err != nil {
		return err
	}
	f, err := readFamily(tx, t.family)
	if err != nil {
		return err
	}
	if t.client != c.ID {
		return nil
	}
	// Our choice: an endpoint would keep reading for whoever had the token. Which of the
	// family's tokens created it is not recorded.
	if err := endWebhooks(tx, n, f); err != nil {
		return err
	}
	if !now.Before(t.expiresAt) || !f.revokedAt.IsZero() {
		return nil
	}
	// Our choice: revoking an access token proves that the client received it,
	// although its use may not be stored yet. A late repeat of the refresh that made
	// it is then theft.
	if err := confirm(tx, t, f); err != nil {
		return err
	}
	// The record can be deleted: a repeated refresh derives the same token and does
	// not store it again.
	if err := errors.Join(keepRevoked(tx, t), tx.Delete(record.AccessTokenKey(h))); err != nil {
		return err
	}
	switch {
	case f.user.IsZero(): // it has no other token
		err = revokeFamily(tx, n, f, now, ReasonRevokedByClient)
	case f.imported:
		err = partiesUsed(tx, f.lineage)
	}
	if err != nil {
		return err
	}
	return appendAudit(tx, f.auditLine(AuditRevoke, ReasonRevokedByClient, by), now, tail)
}
