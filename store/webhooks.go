package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

func (s *Store) openWebhooks(db kv.DB, o Options) *webhook.Webhooks {
	return webhook.New(db, webhook.Options{
		Log: s.Log, Now: s.Now, Random: o.Random, Key: o.Key, Bound: boundTo,
		Audit: func(tx kv.Txn, by webhook.By, account, reason string, tail [8]byte) error {
			return appendAudit(tx, AuditLine{
				What: AuditWebhook, Reason: reason, By: By{RequestID: by.RequestID, Source: by.Address, OperatorID: by.OperatorID},
				ClientID: by.Client, UserID: by.User, AccountID: account,
			}, s.Now(), tail)
		},
	})
}

// boundTo returns ErrDisabled if a client or a user, each unless "", has ended.
func boundTo(r kv.Reader, client, user string) error {
	var c Client
	var u User
	var err error
	if client != "" {
		c, err = readClient(r, client)
	}
	if id, ours := secret.ParseCrockford(strings.TrimPrefix(user, subjectPrefix)); err == nil && ours {
		u, err = readUser(r, id)
	}
	if errors.Is(err, record.ErrNotFound) || err == nil && !(c.DisabledAt.IsZero() && u.DisabledAt.IsZero()) {
		return fmt.Errorf("its client or user has ended: %w", record.ErrDisabled)
	}
	return err
}

// PurgeEvents and TrimEvents remove events, and with them what webhook endpoints had set
// aside of them.

// TrimEvents is [eventlog.Log.TrimEvents].
func (s *Store) TrimEvents(ctx context.Context) (removed int, err error) {
	removed, err = s.Log.TrimEvents(ctx)
	if removed > 0 {
		err = errors.Join(err, s.Webhooks.Sweep(ctx, ""))
	}
	return removed, err
}
