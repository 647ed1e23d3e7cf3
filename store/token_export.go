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

// exportTokensMax is how many authorizations an export of tokens has in memory: about 20 MiB. Those
// of one user for one client are never parted. Their tokens are found by reading all tokens, so a
// store that has n times as many authorizations reads its tokens n times.
const exportTokensMax = 1 << 16

// tokenExport is a stage of an export: the authorizations of which something is live, by account,
// client, username and hash. Each turn collects the families that come next in this order, then
// finds their tokens, and then makes lines of them.
type tokenExport struct {
	now  time.Time
	spec ExportSpec
	max  int

	phase  func(*tokenExport, kv.Reader) ([]moving.Record, bool, error)
	rest   kv.Range
	behind *familyParty // the families up to here are written
	upTo   *familyParty // there are more than fit behind it; nil without any
	found  []*exportedFamily
	lines  []*exportedLine
	full   int // how many to collect before those that come last are dropped
	byID   map[secret.ID]*exportedFamily
}

// familyParty is the client and the user of families, in the order of their lines.
type familyParty struct{ account, client, canonical string }

func (p familyParty) compare(q familyParty) int {
	return cmp.Or(strings.Compare(p.account, q.account), strings.Compare(p.client, q.client), strings.Compare(p.canonical, q.canonical))
}

// exportedFamily is a family with its live tokens.
type exportedFamily struct {
	familyParty
	id        secret.ID
	username  string
	createdAt time.Time
	expiresAt time.Time
	refresh   exportedToken
	access    []exportedToken
}

// exportedToken is a token. That of a zero hash is none.
type exportedToken struct {
	hash     secret.Hash
	scope    Scope
	issuedAt time.Time
	ends     time.Time
}

func newTokenExport(now time.Time, spec ExportSpec) *tokenExport {
	x := &tokenExport{now: now, spec: spec, max: exportTokensMax}
	x.begin()
	return x
}

func (x *tokenExport) next(r kv.Reader) ([]moving.Record, bool, error) { return x.phase(x, r) }

// begin begins a turn.
func (x *tokenExport) begin() {
	x.upTo, x.found, x.byID, x.full = nil, nil, map[secret.ID]*exportedFamily{}, 2*x.max
	x.enter((*tokenExport).collect, record.TagFamily)
}

// enter begins a phase that reads all records of a kind.
func (x *tokenExport) enter(phase func(*tokenExport, kv.Reader) ([]moving.Record, bool, error), tag byte) {
	x.phase, x.rest = phase, record.NewKey(tag).All()
	x.rest.Limit = exportPageMax
}

// scan reads a page of the phase. It reports the end of the phase.
func (x *tokenExport) scan(r kv.Reader, fn func(tail, v []byte) error) (isEnd bool, err error) {
	rows := 0
	for k, v := range r.Scan(x.rest) {
		if err := fn(k[1:], v); err != nil {
			return false, err
		}
		rows++
		x.rest.Lo = append(bytes.Clone(k), 0)
	}
	return rows < x.rest.Limit, nil
}

func (x *tokenExport) collect(r kv.Reader) ([]moving.Record, bool, error) {
	isEnd, err := x.scan(r, func(tail, v []byte) error {
		f, err := decodeFamily(secret.ID(tail), v)
		if err != nil || !f.revokedAt.IsZero() || !x.now.Before(f.expiresAt) || !x.spec.takes(f.account) || !x.isIn(familyParty{f.account, f.client, ""}, true) {
			return err
		}
		return x.add(r, f)
	})
	if len(x.found) >= x.full || isEnd {
		x.trim()
	}
	if isEnd && len(x.found) == 0 {
		return nil, true, err
	}
	if isEnd {
		for _, f := range x.found {
			x.byID[f.id] = f
		}
		x.enter((*tokenExport).findRefresh, record.TagRefreshToken)
	}
	return nil, false, err
}

// isIn reports whether a party belongs to the turn. With isAny the party is any of its client.
func (x *tokenExport) isIn(p familyParty, isAny bool) bool {
	before, after := x.behind, x.upTo
	if isAny && before != nil {
		before = &familyParty{before.account, before.client, ""}
		return p.compare(*before) >= 0 && (after == nil || p.compare(*after) <= 0)
	}
	return (before == nil || p.compare(*before) > 0) && (after == nil || p.compare(*after) <= 0)
}

// add adds a family unless its tokens are not live, or those of a platform client, which an import
// does not take.
func (x *tokenExport) add(r kv.Reader, f family) error {
	both, err := readParties(r, f.lineage)
	if errors.Is(err, record.ErrDisabled) || err == nil && both.client.Platform {
		return nil
	}
	e := &exportedFamily{familyParty: familyParty{account: f.account, client: f.client}, id: f.id, createdAt: f.createdAt, expiresAt: f.expiresAt}
	if err == nil && !f.user.IsZero() {
		var u User
		u, err = record.Read(r, record.UserKey(f.user), f.user, decodeUser)
		e.canonical, e.username = u.Canonical, u.Username
	}
	if err == nil && x.isIn(e.familyParty, false) {
		x.found = append(x.found, e)
	}
	return err
}

// trim leaves the first max families, in whole parties, to the turn.
func (x *tokenExport) trim() {
	slices.SortFunc(x.found, func(a, b *exportedFamily) int { return a.compare(b.familyParty) })
	if len(x.found) <= x.max {
		return
	}
	cut := x.max
	for cut > 0 && x.found[cut-1].familyParty == x.found[x.max].familyParty {
		cut--
	}
	if cut == 0 { // one party has more
		for cut = x.max; cut < len(x.found) && x.found[cut].familyParty == x.found[0].familyParty; cut++ {
		}
	}
	if cut < len(x.found) {
		last := x.found[cut-1].familyParty
		x.upTo = &last
		x.found = slices.Clip(x.found[:cut])
	}
	x.full = max(2*x.max, 2*len(x.found))
}

func (x *tokenExport) findRefresh(r kv.Reader) ([]moving.Record, bool, error) {
	isEnd, err := x.scan(r, func(tail, v []byte) error {
		t, err := decodeRefreshToken(secret.Hash(tail), v)
		if f := x.byID[t.family]; err == nil && f != nil && t.spentAt.IsZero() && t.retiredAt.IsZero() {
			f.refresh = x.liveToken(exportedToken{hash: t.hash, scope: t.scope, ends: earlier(t.expiresAt, f.expiresAt)})
		}
		return err
	})
	if isEnd {
		x.enter((*tokenExport).findAccess, record.TagAccessToken)
	}
	return nil, false, err
}

func (x *tokenExport) findAccess(r kv.Reader) ([]moving.Record, bool, error) {
	isEnd, err := x.scan(r, func(tail, v []byte) error {
		t, err := decodeAccessToken(secret.Hash(tail), v)
		if f := x.byID[t.family]; err == nil && f != nil {
			live := x.liveToken(exportedToken{hash: t.hash, scope: t.scope, issuedAt: t.issuedAt, ends: earlier(t.expiresAt, f.expiresAt)})
			if !live.hash.IsZero() {
				f.access = append(f.access, live)
			}
		}
		return err
	})
	if isEnd && err == nil {
		x.finish()
	}
	return nil, false, err
}

// liveToken returns the token, or none if it ends in this second: lines have whole seconds.
func (x *tokenExport) liveToken(t exportedToken) exportedToken {
	if !x.now.Before(t.ends.Truncate(time.Second)) {
		return exportedToken{}
	}
	return t
}

// finish makes the lines of the turn.
func (x *tokenExport) finish() {
	for _, f := range x.found {
		x.lines = append(x.lines, f.lines()...)
	}
	slices.SortFunc(x.lines, func(a, b *exportedLine) int {
		return cmp.Or(a.of.compare(b.of.familyParty), bytes.Compare(a.access.hash[:], b.access.hash[:]), bytes.Compare(a.refresh.hash[:], b.refresh.hash[:]))
	})
	x.found, x.byID, x.phase = nil, nil, (*tokenExport).write
}

func (x *tokenExport) write(kv.Reader) (page []moving.Record, isEnd bool, err error) {
	n := min(exportPageMax, len(x.lines))
	for _, line := range x.lines[:n] {
		page = append(page, line.record())
	}
	x.lines = x.lines[n:]
	if len(x.lines) > 0 {
		return page, false, nil
	}
	if x.behind = x.upTo; x.upTo == nil {
		return page, true, nil
	}
	x.begin()
	return page, false, nil
}

// exportedLine is a line of a family: an import makes a family of each.
type exportedLine struct {
	of              *exportedFamily
	refresh, access exportedToken
}

// lines returns the refresh token with the newest access token of its scope, and each other access
// token alone: a line has one scope, and no token may get more by the way.
func (f *exportedFamily) lines() (lines []*exportedLine) {
	slices.SortFunc(f.access, func(a, b exportedToken) int {
		return cmp.Or(b.issuedAt.Compare(a.issuedAt), bytes.Compare(a.hash[:], b.hash[:]))
	})
	pair := &exportedLine{of: f, refresh: f.refresh}
	for _, t := range f.access {
		if !pair.refresh.hash.IsZero() && pair.access.hash.IsZero() && t.scope == pair.refresh.scope {
			pair.access = t
			continue
		}
		lines = append(lines, &exportedLine{of: f, access: t})
	}
	if !pair.refresh.hash.IsZero() {
		lines = append(lines, pair)
	}
	return lines
}

func (l *exportedLine) record() *moving.Token {
	t := &moving.Token{ClientID: l.of.client, Username: l.of.username, CreatedAt: unixOf(l.of.createdAt)}
	if scope := cmp.Or(l.refresh.scope, l.access.scope); scope != ScopeUnstated {
		t.Scope = new(scope.String())
	}
	t.AccessSHA256, t.ExpiresAt = l.access.members()
	t.RefreshSHA256, t.RefreshExpiresAt = l.refresh.members()
	return t
}

func (t exportedToken) members() (sha256 *moving.Secret, expiresAt *int64) {
	if t.hash.IsZero() {
		return nil, nil
	}
	return new(moving.Secret(hex.EncodeToString(t.hash[:]))), unixOf(t.ends)
}
