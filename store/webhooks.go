package store

import (
	"context"
	"errors"
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

// boundTo is [webhook.Options.Bound].
func boundTo(r kv.Reader, account, client, user string) (webhook.Reason, error) {
	if client != "" {
		c, err := readClient(r, client)
		if errors.Is(err, record.ErrNotFound) || err == nil && !c.mayPush(account, user != "") {
			return webhook.ClientEnded, nil
		}
		if err != nil {
			return "", err
		}
	}
	if id, ours := secret.ParseCrockford(strings.TrimPrefix(user, subjectPrefix)); ours {
		u, err := readUser(r, id)
		if errors.Is(err, record.ErrNotFound) || err == nil && !u.DisabledAt.IsZero() {
			return webhook.UserEnded, nil
		}
		return "", err
	}
	return "", nil
}

// scopePush is what a client needs to have an account's events pushed.
const scopePush = ScopeEventsRead | ScopeWebhooksWrite

// mayPush reports whether the client may have the account's events pushed. For a user it
// acts in the user's account, otherwise in its own.
func (c Client) mayPush(account string, forUser bool) bool {
	return c.DisabledAt.IsZero() && c.Scope.Covers(scopePush) && (forUser || c.Account == account)
}

// PurgeEvents and TrimEvents remove events, and with them what webhook endpoints had set
// aside of them.

// TrimEvents is [eventlog.Log.TrimEvents].
func (s *Store) TrimEvents(ctx context.Context) (removed int, err error) {
	removed, err = s.Log.TrimEvents(ctx)
	if removed > 0 {
		err = errors.Join(err, s.Webhooks.SweepRemoved(ctx))
	}
	return removed, err
}
