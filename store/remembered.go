package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// remembered is what a user allowed a client that remembers consent. It is valid while its
// lineage and epoch are current: a new password, disabling and a change of the
// client raise or renew them. All of it is one record, so that one write revokes it.
type remembered struct {
	lineage
	epoch   secret.ID // the client's ConsentEpoch when the user was asked
	allowed []allowed // oldest first
}

// allowed is one decision. It applies to one redirect URI, byte for byte, also on
// loopback, where the port tells programs apart.
type allowed struct {
	redirectURI secret.Hash
	scope       Scope // effective: a scope that is introduced later is not in it
	at          time.Time
}

const (
	rememberedRecord = 1
	rememberedFor    = 365 * 24 * time.Hour
	// rememberedMax is how many decisions are kept for a user and client: more than
	// the applications of one client need. The oldest ones are dropped.
	rememberedMax = 16
)

// AllowRemembered is [Store.Allow] without asking: it stores an authorization code if the
// user has allowed all of c before and that is still valid. The transaction that stores the
// code reads all that it depends on. Ticket and Epoch are not used. Errors: ErrNotFound if
// the user must be asked; ErrTooOften.
func (s *Store) AllowRemembered(ctx context.Context, c Consent) (secret.Token, error) {
	now := s.Now()
	token := secret.New(s.random, secret.Code)
	code := s.newCode(c, token, now)
	code.remembered = true
	err := s.access(ctx, code.account, func(tx kv.Txn) error {
		r, err := readRemembered(tx, c.User.ID, c.Client.ID)
		if err != nil {
			return err
		}
		stands, err := r.stands(tx, now)
		if err != nil {
			return err
		}
		if !stands || r.lineage != code.lineage || !r.covers(c.RedirectURI, c.Scope, now) {
			return record.ErrNotFound
		}
		return s.createCode(tx, code, now)
	})
	if err != nil {
		return secret.Token{}, fmt.Errorf("allow remembered: %w", err)
	}
	s.grants.Note(code.granted(), 1, now)
	return token, nil
}

// stands reports whether any of r may still be used.
func (r remembered) stands(rd kv.Reader, now time.Time) (bool, error) {
	if _, err := readParties(rd, r.lineage); err != nil {
		return false, disabledIsNil(err)
	}
	client, err := readClient(rd, r.client)
	if err != nil {
		return false, err
	}
	user, err := readUser(rd, r.user)
	if err != nil {
		return false, err
	}
	return client.ConsentEpoch == r.epoch && user.Account == r.account && len(r.current(now)) > 0, nil
}

func disabledIsNil(err error) error {
	if errors.Is(err, record.ErrDisabled) {
		return nil
	}
	return err
}

// current returns the decisions that have not expired.
func (r remembered) current(now time.Time) (list []allowed) {
	for _, a := range r.allowed {
		if now.Before(a.ends()) {
			list = append(list, a)
		}
	}
	return list
}

func (a allowed) ends() time.Time { return a.at.Add(rememberedFor) }

// covers reports whether one decision allowed all of the scope at the redirect URI.
func (r remembered) covers(redirectURI string, scope Scope, now time.Time) bool {
	return slices.ContainsFunc(r.current(now), func(a allowed) bool {
		return a.redirectURI.Equal(secret.HashOf(redirectURI)) && a.scope.Covers(scope)
	})
}

// remember stores within tx what the user has just allowed a client that remembers
// consent. If the client has changed since the user was shown it, it is never valid. A
// private-use scheme is not remembered: any app on the device can claim it (RFC 8252
// §8.6).
func remember(tx kv.Txn, c Consent, l lineage, now time.Time) error {
	web := strings.HasPrefix(c.RedirectURI, "https://") || strings.HasPrefix(c.RedirectURI, "http://")
	if c.Epoch.IsZero() || !web {
		return nil
	}
	r, err := readRemembered(tx, l.user, l.client)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return err
	}
	if r.lineage != l || r.epoch != c.Epoch {
		r = remembered{lineage: l, epoch: c.Epoch}
	}
	next := allowed{redirectURI: secret.HashOf(c.RedirectURI), scope: c.Scope.Effective(), at: now}
	r.allowed = slices.DeleteFunc(r.current(now), func(a allowed) bool {
		return a.redirectURI.Equal(next.redirectURI) && next.scope.Covers(a.scope)
	})
	r.allowed = append(r.allowed, next)
	r.allowed = r.allowed[max(0, len(r.allowed)-rememberedMax):]
	return tx.Set(record.ConsentKey(l.user, l.client), encodeRemembered(r), next.ends())
}

// forget revokes within tx what is remembered, and reports whether any of it was valid.
func forget(tx kv.Txn, user secret.ID, client string, now time.Time) (stood bool, err error) {
	r, err := readRemembered(tx, user, client)
	if errors.Is(err, record.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		stood, err = r.stands(tx, now)
	}
	if err != nil {
		return false, err
	}
	return stood, tx.Delete(record.ConsentKey(user, client))
}

// ReasonForgotten is the reason of the audit line for consent that was remembered and is
// no longer.
const ReasonForgotten = "remembered_consent_revoked_by_user"

// revokeRemembered revokes what the user allowed the client, with an audit line.
func (s *Store) revokeRemembered(ctx context.Context, db kv.DB, by By, u User, clientID string) error {
	now, tail := s.Now(), secret.NewTail(s.random)
	line := AuditLine{What: AuditRevoke, Reason: ReasonForgotten, By: by, ClientID: clientID, UserID: u.Subject(), AccountID: u.Account}
	return record.UpdateAs(ctx, db, by.ending(), func(tx kv.Txn) error {
		stood, err := forget(tx, u.ID, clientID, now)
		if err != nil || !stood {
			return err
		}
		return appendAudit(tx, line, now, tail)
	})
}

// listRemembered returns a user's remembered consents that are valid, with the clients.
func (s *Store) listRemembered(ctx context.Context, u User) (list []remembered, clients []Client, err error) {
	now := s.Now()
	_, err = s.eachIndexPage(ctx, record.UserConsentsKey(u.ID), func(ends [][]byte) (more bool, err error) {
		err = s.db.View(ctx, func(rd kv.Reader) error {
			record.Prefetch(rd, ends, func(end []byte) record.Key { return append(record.UserConsentsKey(u.ID), end...) })
			record.Prefetch(rd, ends, func(end []byte) record.Key { return append(record.NewKey(record.TagClient), end...) })
			for _, end := range ends {
				clientID, _ := record.CutString(end)
				r, err := readRemembered(rd, u.ID, clientID)
				if errors.Is(err, record.ErrNotFound) {
					continue
				}
				if err != nil {
					return err
				}
				stands, err := r.stands(rd, now)
				if err != nil {
					return err
				}
				if !stands {
					continue
				}
				c, err := readClient(rd, clientID)
				if err != nil {
					return err
				}
				r.allowed = r.current(now)
				list, clients = append(list, r), append(clients, c)
			}
			return nil
		})
		return len(list) < rememberedReadMax, err
	})
	return list, clients, err
}

// rememberedReadMax bounds the clients that are read of one user.
const rememberedReadMax = 1000

func readRemembered(r kv.Reader, user secret.ID, client string) (remembered, error) {
	return record.Read(r, record.ConsentKey(user, client), client, decodeRemembered)
}

func encodeRemembered(r remembered) []byte {
	e := encodeLineage(record.NewEncoder(rememberedRecord), r.lineage).ID(r.epoch).Uint(uint64(len(r.allowed)))
	for _, a := range r.allowed {
		e.Hash(a.redirectURI).Uint(uint64(a.scope)).Time(a.at)
	}
	return e.B
}

func decodeRemembered(_ string, v []byte) (remembered, error) {
	d := record.NewDecoder("remembered consent", rememberedRecord, v)
	r := remembered{lineage: decodeLineage(&d), epoch: d.ID()}
	n := d.Uint()
	if n > rememberedMax {
		d.Fail("has more decisions than are kept")
	}
	for range min(n, rememberedMax) {
		a := allowed{redirectURI: d.Hash(), scope: decodeScope(&d), at: d.Time()}
		if a.scope == ScopeUnstated { // which would be everything
			d.Fail("has a decision without a scope")
		}
		r.allowed = append(r.allowed, a)
	}
	return r, d.Done()
}
