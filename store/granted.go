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
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// Granted is a client that can act for a user now, or can have access without asking.
type Granted struct {
	ClientID    string
	Name        string
	Permissions []string  // names of the current permissions of all its live authorizations
	Since       time.Time // start of the oldest live authorization, or of what is remembered
	UsedAt      time.Time // exact to a few minutes; zero if never used
	IsLive      bool      // it can act now; if not, it is only let through without asking
	// Remembered is until when the client is let through without asking; zero if not.
	Remembered time.Time
}

const (
	indexPageMax    = 500    // index keys read in one View
	familiesReadMax = 20_000 // of one user; a client that asks every minute reaches it in two weeks
	// revokeBatchMax bounds the families or codes in one Update: two writes and an audit line
	// each, and an account's webhook endpoints.
	revokeBatchMax = 100
)

// ListGranted returns the clients that can act for the user or are let through without
// asking, by name. whole is false
// if the user has more authorizations than were read.
func (s *Store) ListGranted(ctx context.Context, u User) (list []Granted, whole bool, err error) {
	byClient, read := map[string]*Granted{}, 0
	scopes := map[string]Scope{}
	whole, err = s.eachIndexPage(ctx, record.UserFamiliesKey(u.ID), func(ends [][]byte) (more bool, err error) {
		live, err := s.liveFamilies(ctx, ends)
		for _, f := range live {
			g, known := byClient[f.client]
			if !known {
				g = &Granted{ClientID: f.client, Name: f.clientNow.Name, Since: f.createdAt, IsLive: true}
				byClient[f.client] = g
			}
			g.Since = earlier(g.Since, f.createdAt)
			if f.usedAt.After(g.UsedAt) {
				g.UsedAt = f.usedAt
			}
			scopes[f.client] |= f.scope.Effective() & f.clientNow.Scope.Effective()
		}
		read += len(ends)
		return read < familiesReadMax, err
	})
	if err != nil {
		return nil, false, fmt.Errorf("list granted: %w", err)
	}
	consents, clients, err := s.listRemembered(ctx, u)
	if err != nil {
		return nil, false, fmt.Errorf("list granted: remembered: %w", err)
	}
	for i, r := range consents {
		g, known := byClient[r.client]
		if !known {
			g = &Granted{ClientID: r.client, Name: clients[i].Name, Since: r.allowed[0].at}
			byClient[r.client] = g
		}
		for _, a := range r.allowed {
			g.Remembered = a.ends() // the latest
			if !g.IsLive {
				scopes[r.client] |= a.scope & clients[i].Scope.Effective()
			}
		}
	}
	for id, g := range byClient {
		g.Permissions = scopes[id].Names()
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Granted) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ClientID, b.ClientID))
	})
	return list, whole, nil
}

// RevokeGranted revokes everything a user gave to a client: every token, every
// unredeemed code and what is remembered, from the next request on. It is idempotent.
func (s *Store) RevokeGranted(ctx context.Context, by By, u User, clientID string) error {
	return s.revokeGranted(ctx, by, u, clientID, nil)
}

func (s *Store) revokeGranted(ctx context.Context, by By, u User, clientID string, guards checks) error {
	if !IsClientID(clientID) {
		return nil
	}
	// First the webhook endpoints, also of authorizations that have expired. One that is
	// created in the meantime is disabled with the family of its token.
	owner := webhook.Owner{Client: clientID, User: u.Subject()}
	err := s.revoke(ctx, by.ending(), by, secret.NewTail(s.random), func(tx kv.Txn, n *webhook.Ending) error {
		if err := guards.begin(tx); err != nil {
			return err
		}
		return n.In(tx, u.Account, owner)
	})
	if err != nil {
		return fmt.Errorf("revoke granted: webhook endpoints: %w", err)
	}
	// What is remembered then: no code is given without asking after it.
	if err := s.revokeRemembered(ctx, guards.guarded(s.db), by, u, clientID); err != nil {
		return fmt.Errorf("revoke granted: remembered: %w", err)
	}
	// Then codes: a code redeemed before this has a family by then, and the families
	// are read afterwards.
	if err := s.revokeCodes(ctx, guards.guarded(s.db), by, record.UserCodesKey(u.ID, clientID), by.revoking()); err != nil {
		return fmt.Errorf("revoke granted: codes: %w", err)
	}
	if err := s.revokeLive(ctx, by, record.UserFamiliesKey(u.ID), FamilyFilter{ClientID: clientID}, guards); err != nil {
		return fmt.Errorf("revoke granted: %w", err)
	}
	return nil
}

// revokeLive revokes the selected live families of an index, which have one client and one
// user or none.
func (s *Store) revokeLive(ctx context.Context, by By, index record.Key, want FamilyFilter, guards checks) error {
	_, err := s.eachIndexPage(ctx, index, func(ends [][]byte) (more bool, err error) {
		live, err := s.liveFamilies(ctx, ends)
		if err != nil {
			return false, err
		}
		of := slices.DeleteFunc(live, func(f liveFamily) bool { return !want.selects(f.family) })
		for batch := range slices.Chunk(of, revokeBatchMax) {
			if err := s.revokeFamilies(ctx, by, batch, guards); err != nil {
				return false, err
			}
		}
		return true, nil
	})
	return err
}

// revoking is the reason of what by revokes.
func (by By) revoking() string {
	if by.Actor != (Actor{}) {
		return ReasonRevokedByOperator
	}
	return ReasonRevokedByUser
}

// liveFamily is a live family with its current client and user.
type liveFamily struct {
	family
	clientNow Client
	userNow   User
}

// liveFamilies returns the live families among ids.
func (s *Store) liveFamilies(ctx context.Context, ids [][]byte) (live []liveFamily, err error) {
	now := s.Now()
	err = s.db.View(ctx, func(r kv.Reader) error {
		live = nil
		prefetchFamilies(r, ids)
		var families []family
		var parties [][]byte
		for _, id := range ids {
			f, err := readFamily(r, secret.ID(id))
			if errors.Is(err, record.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			if f.revokedAt.IsZero() && now.Before(f.expiresAt) {
				families, parties = append(families, f), append(parties, f.keys()...)
			}
		}
		kv.Prefetch(r, parties)
		for _, f := range families {
			p, err := readParties(r, f.lineage)
			if errors.Is(err, record.ErrDisabled) {
				continue
			}
			if err != nil {
				return err
			}
			live = append(live, liveFamily{family: f, clientNow: p.client, userNow: p.user})
		}
		return nil
	})
	return live, err
}

func prefetchFamilies(r kv.Reader, ids [][]byte) {
	record.Prefetch(r, ids, func(id []byte) record.Key { return record.FamilyKey(secret.ID(id)) })
}

// revokeFamilies revokes families of one client and one user or none, and disables the webhook
// endpoints that their tokens created.
func (s *Store) revokeFamilies(ctx context.Context, by By, families []liveFamily, guards checks) error {
	now, tails, ids := s.Now(), make([][8]byte, len(families)), make([][]byte, len(families))
	for i := range tails {
		tails[i], ids[i] = secret.NewTail(s.random), families[i].id[:]
	}
	return s.revoke(ctx, by.ending(), by, secret.NewTail(s.random), func(tx kv.Txn, n *webhook.Ending) error {
		if err := guards.begin(tx); err != nil {
			return err
		}
		prefetchFamilies(tx, ids)
		for i, seen := range families {
			f, err := readFamily(tx, seen.id)
			if errors.Is(err, record.ErrNotFound) || err == nil && !f.revokedAt.IsZero() {
				continue // no longer live
			}
			if err != nil {
				return err
			}
			if err := writeRevoked(tx, f, now, by.revoking()); err != nil {
				return err
			}
			if err := appendAudit(tx, f.auditLine(AuditRevoke, by.revoking(), by), now, tails[i]); err != nil {
				return err
			}
		}
		of := families[0]
		if of.user.IsZero() { // its endpoints are bound to the client
			return nil
		}
		return n.In(tx, of.account, webhook.Owner{Client: of.client, User: of.userNow.Subject()})
	})
}

// eachIndexPage calls visit with pages of what the index's keys end in, each read in
// its own View, until the end or until visit returns false. It reports whether visit
// saw everything.
func (s *Store) eachIndexPage(ctx context.Context, index record.Key, visit func(ends [][]byte) (more bool, err error)) (whole bool, err error) {
	return s.eachIndexPageFrom(ctx, index, index, visit)
}

// eachIndexPageFrom is eachIndexPage, starting at the key lo.
func (s *Store) eachIndexPageFrom(ctx context.Context, index, lo record.Key, visit func(ends [][]byte) (more bool, err error)) (whole bool, err error) {
	r := kv.Range{Lo: lo, Hi: record.After(index), KeysOnly: true, Limit: indexPageMax}
	for {
		var ends [][]byte
		err := s.db.View(ctx, func(rd kv.Reader) error {
			ends = nil
			for k := range rd.Scan(r) {
				ends = append(ends, slices.Clone(k[len(index):]))
			}
			return nil
		})
		if err != nil || len(ends) == 0 {
			return err == nil, err
		}
		r.Lo = append(append(slices.Clone(index), ends[len(ends)-1]...), 0)
		if more, err := visit(ends); err != nil || !more {
			return false, err
		}
	}
}
