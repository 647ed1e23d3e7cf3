package store

import (
	"context"
	"errors"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

func (s *Store) openWebhooks(db kv.DB, o Options) *webhook.Webhooks {
	return webhook.New(db, webhook.Options{
		Log: s.Events, Now: s.Now, Random: o.Random, Key: o.Key, Ended: ownerEnded, Stopped: accountStopped, Budget: &s.writes,
		Audit: func(tx kv.Txn, by webhook.By, account, reason string, tail [8]byte) error {
			line := AuditLine{
				What: AuditWebhook, Reason: reason, By: By{RequestID: by.RequestID, Source: by.Address, Actor: Actor{ClientID: by.ActorClient, ClientName: by.ActorName, OperatorID: by.OperatorID}},
				ClientID: by.Client, UserID: by.User, AccountID: account,
			}
			switch {
			case by.Client != "" || by.User != "":
				return s.auditChange(tx, line, reasonChanges, tail)
			// A receiver can cause it, and whoever enables endpoints and revokes the token again.
			case account != "" && by.OperatorID == "" && by.ActorClient == "" && (by.RequestID == "" || by.Address != ""):
				return s.auditChange(tx, line, reasonServerChanges, tail)
			}
			return appendAudit(tx, line, s.Now(), tail)
		},
	})
}

// ownerEnded is [webhook.Options.Ended]. A family that expired and was removed has not been
// revoked.
func ownerEnded(r kv.Reader, account string, o webhook.Owner) (webhook.Reason, error) {
	user, ours := numberNamed(subjectPrefix, o.User)
	kv.Prefetch(r, [][]byte{record.ClientKey(o.Client), record.UserKey(user), record.FamilyKey(o.Family)})
	if o.Client != "" {
		c, err := readClient(r, o.Client)
		if errors.Is(err, record.ErrNotFound) || err == nil && (!c.DisabledAt.IsZero() || c.Generation != o.ClientGeneration) {
			return webhook.AuthorizationEnded, nil
		}
		if err != nil {
			return "", err
		}
		if !c.mayPush(account, o.User != "") {
			return webhook.ClientEnded, nil
		}
	}
	if ours {
		u, err := readUser(r, user)
		if errors.Is(err, record.ErrNotFound) || err == nil && (!u.DisabledAt.IsZero() || u.Generation != o.UserGeneration) {
			return webhook.AuthorizationEnded, nil
		}
		if err != nil {
			return "", err
		}
	}
	if !o.Family.IsZero() {
		f, err := readFamily(r, o.Family)
		if err == nil && !f.revokedAt.IsZero() {
			return webhook.AuthorizationEnded, nil
		}
		return "", record.GoneIsNil(err)
	}
	return "", nil
}

// accountStopped is [webhook.Options.Stopped].
func accountStopped(r kv.Reader, account string) (time.Time, error) {
	a, err := readAccountHead(r, account)
	return a.DisabledAt, record.GoneIsNil(err)
}

// isOfAccount reports whether an authorization is that of a user, whose account it is then, of a
// token that acts for the account alone, or of a client that is bound to it. A platform client
// that named the account in a header is not: its authorization is for all.
func isOfAccount(r kv.Reader, account string, o webhook.Owner) (bool, error) {
	if o.User != "" || o.Client == "" || o.OneAccount {
		return o.User != "" || o.OneAccount, nil
	}
	c, err := readClient(r, o.Client)
	return c.Account == account, record.GoneIsNil(err)
}

// owner returns the owner of the webhook endpoints that a family's tokens create.
func (f family) owner() webhook.Owner {
	user := User{ID: f.user}
	return ownerOf(f.client, user.Subject(), f.id, f.clientGeneration, f.userGeneration)
}

// WebhookOwner returns the owner of the webhook endpoints that the token creates.
func (p Principal) WebhookOwner() webhook.Owner {
	o := ownerOf(p.ClientID, p.UserID, p.family, p.clientGeneration, p.userGeneration)
	o.OneAccount = p.Platform && !p.acting
	return o
}

func ownerOf(client, user string, family secret.ID, clientGeneration, userGeneration uint64) webhook.Owner {
	if user == "" { // bound to the client, not to one of its tokens
		family = secret.ID{}
	}
	return webhook.Owner{Client: client, User: user, Family: family, ClientGeneration: clientGeneration, UserGeneration: userGeneration}
}

// ending begins what disables webhook endpoints in a transaction that ends authorizations.
// tail is that of the transaction's audit line.
func (s *Store) ending(by By, tail [8]byte) *webhook.Ending {
	return s.Webhooks.NewEnding(by.Webhooks(), tail)
}

// Webhooks is by for a change of webhook endpoints, without an authorization.
func (by By) Webhooks() webhook.By {
	a := by.Actor
	return webhook.By{RequestID: by.RequestID, Address: by.Source, OperatorID: a.OperatorID, ActorClient: a.ClientID, ActorName: a.ClientName}
}

// revoke runs a transaction that may end authorizations.
func (s *Store) revoke(ctx context.Context, class kv.Class, by By, tail [8]byte, fn func(tx kv.Txn, n *webhook.Ending) error) error {
	n := s.ending(by, tail)
	return n.Commit(ctx, record.UpdateAs(ctx, s.db, class, func(tx kv.Txn) error {
		n.Begin()
		return fn(tx, n)
	}))
}

// scopePush is what a client needs to have an account's events pushed.
const scopePush = ScopeEventsRead | ScopeWebhooksWrite

// mayPush reports whether an enabled client may have the account's events pushed. For a user
// it acts in the user's account, otherwise in its own, or as a platform client in any.
func (c Client) mayPush(account string, forUser bool) bool {
	if c.Platform {
		return c.Scope.Covers(scopePush | ScopeAccountsAct)
	}
	return c.Scope.Covers(scopePush) && (forUser || c.Account == account)
}

// TrimEvents is [eventlog.Log.Trim] and [eventlog.Log.TrimFeed], and removes what webhook
// endpoints had set aside of the events. It returns the number of events.
func (s *Store) TrimEvents(ctx context.Context) (removed int, err error) {
	removed, err = s.Events.Trim(ctx)
	entries, failed := s.Events.TrimFeed(ctx)
	if err = errors.Join(err, failed); removed+entries > 0 {
		err = errors.Join(err, s.Webhooks.SweepRemoved(ctx))
	}
	return removed, err
}
