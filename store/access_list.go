package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/webhook"
)

// Access is all that a client may do for one user, or without a user for an account: its live
// families there together. The embedded Family has the id of the one that lasts longest, the
// permissions of all, the start of the oldest and the latest use.
type Access struct {
	Family
	Families int
}

// ListAccess returns access by the name of the client and then of the user. It reads the
// families after the given id, familiesReadMax at most, and groups these; next is the last one
// if there are more. Errors: *InvalidError for a malformed id.
func (s *Store) ListAccess(ctx context.Context, want FamilyFilter, behind string) (list []Access, next string, err error) {
	type party struct{ client, user, account string }
	groups, scopes, read := map[party]*Access{}, map[party]Scope{}, 0
	index := want.index()
	lo, ok := behindName(index, behind, familyNamed)
	if !ok {
		return nil, "", record.Invalid("after", "tollhouse token list shows the ids", "after must be the id of a family of tokens")
	}
	whole, err := s.eachIndexPageFrom(ctx, index, lo, func(ends [][]byte) (more bool, err error) {
		live, err := s.liveFamilies(ctx, ends)
		for _, f := range live {
			if !want.selects(f.family) {
				continue
			}
			shown := f.shown()
			of := party{shown.ClientID, shown.UserID, shown.Account}
			scopes[of] |= givesNow(f.scope, f.clientNow.Scope)
			if g := groups[of]; g != nil {
				g.add(shown)
				continue
			}
			groups[of] = &Access{shown, 1}
		}
		next, read = familyName([16]byte(ends[len(ends)-1])), read+len(ends)
		return read < familiesReadMax, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list access: %w", err)
	}
	if whole {
		next = ""
	}
	for of, g := range groups {
		g.Permissions = scopes[of].Names()
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Access) int {
		return cmp.Or(strings.Compare(a.ClientName, b.ClientName), strings.Compare(a.ClientID, b.ClientID),
			strings.Compare(a.Username, b.Username), strings.Compare(a.UserID, b.UserID), strings.Compare(a.Account, b.Account))
	})
	return list, next, nil
}

// add counts another family of the same client and user.
func (a *Access) add(f Family) {
	since, used := earlier(a.CreatedAt, f.CreatedAt), a.UsedAt
	if f.UsedAt.After(used) {
		used = f.UsedAt
	}
	if f.ExpiresAt.After(a.ExpiresAt) {
		a.Family = f
	}
	a.CreatedAt, a.UsedAt = since, used
	a.Families++
}

// Owns reports whether a token of the family created the webhook endpoint, or with all a token
// of any family of the same client and user.
func (f Family) Owns(e webhook.Endpoint, all bool) bool {
	return f.UserID != "" && e.Client == f.ClientID && e.User == f.UserID && (all || e.Family.IsZero() || familyName(e.Family) == f.ID)
}

// FindFamily returns a family and whether it is live. Errors: ErrNotFound.
func (s *Store) FindFamily(ctx context.Context, id string) (found Family, live bool, err error) {
	number, ok := familyNamed(id)
	if !ok {
		return Family{}, false, fmt.Errorf("find family: %w", record.ErrNotFound)
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		f, err := readFamily(r, number)
		if err != nil {
			return err
		}
		p, err := readParties(r, f.lineage)
		live = err == nil && f.revokedAt.IsZero() && s.Now().Before(f.expiresAt)
		if errors.Is(err, record.ErrDisabled) {
			err = nil
		}
		found = f.shown(p)
		return err
	})
	if err != nil {
		return Family{}, false, fmt.Errorf("find family: %w", err)
	}
	return found, live, nil
}

// RevokeAccess revokes all that the client of a family may do for the family's user, or
// without a user for its account: every token, every unredeemed code and what is remembered,
// from the next request on. The family need not be live. It is idempotent. Errors: ErrNotFound;
// those of the guards, of which only Live is called.
func (s *Store) RevokeAccess(ctx context.Context, by By, id string, guards ...Guard) error {
	number, ok := familyNamed(id)
	var f family
	err := record.ErrNotFound
	if ok {
		err = s.db.View(ctx, func(r kv.Reader) (err error) {
			f, err = readFamily(r, number)
			return err
		})
	}
	switch {
	case err != nil:
	case f.user.IsZero():
		err = s.revokeLive(ctx, by, record.ClientFamiliesKey(f.client), FamilyFilter{ClientID: f.client, Account: f.account}, guards)
	default:
		err = s.revokeGranted(ctx, by, User{ID: f.user, Account: f.account}, f.client, guards)
	}
	if err != nil {
		return fmt.Errorf("revoke access: %w", err)
	}
	return nil
}
