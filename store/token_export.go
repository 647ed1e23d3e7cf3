package store

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// heldTokens are the tokens of a family that have not ended.
type heldTokens struct {
	access  []accessToken
	refresh refreshToken
}

// liveTokens returns the live tokens of an account, or with "" of all, as lines of an import that
// makes the same families elsewhere: by account, client, username and hash. It is one line a family,
// and one for each further access token. Those of platform clients, which last an hour, are left
// out. It keeps some 300 bytes of each family in memory.
func (s *Store) liveTokens(r kv.Reader, account string) (lines []*moving.Token, err error) {
	held, err := s.heldTokens(r)
	if err != nil {
		return nil, err
	}
	var list []ImportedTokens
	for id, tokens := range held {
		f, err := readFamily(r, id)
		if record.IsAbsent(err) || err == nil && (!f.revokedAt.IsZero() || !s.Now().Before(f.expiresAt) || account != "" && f.account != account) {
			continue
		}
		var p parties
		if err == nil {
			p, err = readParties(r, f.lineage)
		}
		switch {
		case errors.Is(err, record.ErrDisabled), err == nil && p.client.Platform:
			continue
		case err != nil:
			return nil, err
		}
		list = append(list, tokens.of(f, p.user.Username)...)
	}
	slices.SortFunc(list, func(a, b ImportedTokens) int {
		return cmp.Or(strings.Compare(a.account, b.account), strings.Compare(a.ClientID, b.ClientID), strings.Compare(a.Username, b.Username),
			bytes.Compare(a.Access.Hash[:], b.Access.Hash[:]), bytes.Compare(a.Refresh.Hash[:], b.Refresh.Hash[:]))
	})
	for _, tokens := range list {
		lines = append(lines, tokens.line())
	}
	return lines, nil
}

// heldTokens returns the tokens that have not ended by themselves, by family.
func (s *Store) heldTokens(r kv.Reader) (map[secret.ID]*heldTokens, error) {
	now, held := s.Now(), map[secret.ID]*heldTokens{}
	of := func(family secret.ID) *heldTokens {
		if held[family] == nil {
			held[family] = &heldTokens{}
		}
		return held[family]
	}
	for k, v := range r.Scan(record.NewKey(record.TagAccessToken).All()) {
		t, err := decodeAccessToken(secret.Hash(k[1:]), v)
		if err != nil {
			return nil, err
		}
		if now.Before(t.expiresAt.Truncate(time.Second)) {
			of(t.family).access = append(of(t.family).access, t)
		}
	}
	for k, v := range r.Scan(record.NewKey(record.TagRefreshToken).All()) {
		t, err := decodeRefreshToken(secret.Hash(k[1:]), v)
		if err != nil {
			return nil, err
		}
		if t.spentAt.IsZero() && t.retiredAt.IsZero() && now.Before(t.expiresAt.Truncate(time.Second)) {
			of(t.family).refresh = t
		}
	}
	return held, nil
}

// of returns the tokens as those of authorizations: the refresh token with the newest access token of
// its scope, and each other access token alone.
func (h heldTokens) of(f family, username string) (list []ImportedTokens) {
	slices.SortFunc(h.access, func(a, b accessToken) int {
		return cmp.Or(b.issuedAt.Compare(a.issuedAt), bytes.Compare(a.hash[:], b.hash[:]))
	})
	whole := ImportedTokens{ClientID: f.client, Username: username, CreatedAt: f.createdAt, account: f.account}
	alone := whole
	whole.Refresh, whole.Scope = ImportedToken{h.refresh.hash, h.refresh.expiresAt}, h.refresh.scope
	for _, t := range h.access {
		alone.Access, alone.Scope = ImportedToken{t.hash, t.expiresAt}, t.scope
		if !whole.Refresh.Hash.IsZero() && whole.Access.Hash.IsZero() && t.scope == whole.Scope {
			whole.Access = alone.Access
			continue
		}
		list = append(list, alone)
	}
	if !whole.Refresh.Hash.IsZero() {
		list = append(list, whole)
	}
	return list
}

// line returns the tokens as an import takes them.
func (given ImportedTokens) line() *moving.Token {
	t := &moving.Token{ClientID: given.ClientID, Username: given.Username, CreatedAt: unixOf(given.CreatedAt)}
	if names := given.Scope.String(); names != "" {
		t.Scope = &names
	}
	t.AccessSHA256, t.ExpiresAt = given.Access.members()
	t.RefreshSHA256, t.RefreshExpiresAt = given.Refresh.members()
	return t
}

func (t ImportedToken) members() (sha256 *moving.Secret, expiresAt *int64) {
	if t.Hash.IsZero() {
		return nil, nil
	}
	return new(moving.Secret(hex.EncodeToString(t.Hash[:]))), unixOf(t.ExpiresAt)
}

func unixOf(at time.Time) *int64 { return new(at.Unix()) }
