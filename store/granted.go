package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Granted is a client that can act for a user now.
type Granted struct {
	ClientID string
	Name     string
	Scope    Scope     // everything that its live authorizations give together
	Since    time.Time // of the oldest live authorization
	UsedAt   time.Time // within a few minutes of being exact; zero when it was never used
}

// familiesReadMax bounds the authorizations of one user that are looked through:
// more would be a client that asks anew each minute, for months.
const familiesReadMax = 5000

// ListGranted returns the clients that can act for the user, by name.
func (s *Store) ListGranted(ctx context.Context, u User) ([]Granted, error) {
	byClient := map[string]*Granted{}
	err := s.eachFamily(ctx, u, func(f family, c Client) {
		g, known := byClient[f.client]
		if !known {
			g = &Granted{ClientID: c.ID, Name: c.Name, Scope: f.scope, Since: f.createdAt}
			byClient[f.client] = g
		}
		g.Scope = union(g.Scope, f.scope)
		g.Since = earlier(g.Since, f.createdAt)
		if f.usedAt.After(g.UsedAt) {
			g.UsedAt = f.usedAt
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list granted: %w", err)
	}
	var list []Granted
	for _, g := range byClient {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Granted) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ClientID, b.ClientID))
	})
	return list, nil
}

// union is what two scopes give together.
func union(a, b Scope) Scope {
	if a == ScopeUnstated || b == ScopeUnstated {
		return ScopeUnstated
	}
	return a | b
}

// eachFamily visits the user's live authorizations.
func (s *Store) eachFamily(ctx context.Context, u User, visit func(family, Client)) error {
	now, prefix := s.Now(), userFamiliesKey(u.ID)
	r := prefix.all()
	r.KeysOnly, r.Limit = true, familiesReadMax
	return s.db.View(ctx, func(rd kv.Reader) error {
		for k := range rd.Scan(r) {
			f, err := readFamily(rd, secret.ID(k[len(prefix):]))
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if !f.revokedAt.IsZero() || !now.Before(f.expiresAt) {
				continue
			}
			p, err := readParties(rd, f.lineage)
			if errors.Is(err, ErrDisabled) {
				continue
			}
			if err != nil {
				return err
			}
			visit(f, p.client)
		}
		return nil
	})
}

const revokeBatchMax = 200 // families ended in one Update, an audit line each

// RevokeGranted ends what a user gave to a client: every token of it, at the
// very next request. That there is none is no error.
func (s *Store) RevokeGranted(ctx context.Context, by By, u User, clientID string) error {
	var ids []secret.ID
	err := s.eachFamily(ctx, u, func(f family, _ Client) {
		if f.client == clientID {
			ids = append(ids, f.id)
		}
	})
	for batch := range slices.Chunk(ids, revokeBatchMax) {
		if err == nil {
			err = s.revokeFamilies(ctx, by, batch)
		}
	}
	if err != nil {
		return fmt.Errorf("revoke granted: %w", err)
	}
	return nil
}

func (s *Store) revokeFamilies(ctx context.Context, by By, ids []secret.ID) error {
	now, tails := s.Now(), make([][8]byte, len(ids))
	for i := range tails {
		tails[i] = secret.NewTail()
	}
	return s.db.Update(ctx, func(tx kv.Txn) error {
		for i, id := range ids {
			f, err := readFamily(tx, id)
			if errors.Is(err, ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if err := revokeFamily(tx, f, now, ReasonRevokedByUser); err != nil {
				return err
			}
			if err := appendAudit(tx, f.auditLine(AuditRevoke, ReasonRevokedByUser, by), now, tails[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
