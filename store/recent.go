package store

import (
	"context"
	"errors"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// recent saves round trips to a database that several processes share. It remembers for whom
// tokens were issued, to name the records that are read next, and clients that have
// authenticated, whose records the transaction of a refresh compares. Nothing in it is believed:
// what was revoked since is refused. On other engines it is nil.
type recent struct {
	tokens  *lru.Cache[secret.Hash, kin]
	clients *lru.Cache[string, Client]
}

const (
	recentTokensMax  = 1 << 14 // some 300 bytes each
	recentClientsMax = 1 << 10
)

func newRecent() *recent {
	tokens, err := lru.New[secret.Hash, kin](recentTokensMax)
	if err != nil {
		panic("store: " + err.Error())
	}
	clients, err := lru.New[string, Client](recentClientsMax)
	if err != nil {
		panic("store: " + err.Error())
	}
	return &recent{tokens, clients}
}

// kin is what a token belongs to.
type kin struct {
	family secret.ID
	lineage
}

// keys are those of the family and its parties, and of the head of the account's log.
func (k kin) keys() [][]byte {
	return append(k.lineage.keys(), record.FamilyKey(k.family), record.EventHeadKey(k.account))
}

// noteToken remembers what a token belongs to.
func (rc *recent) noteToken(h secret.Hash, k kin) {
	if rc != nil {
		rc.tokens.Add(h, k)
	}
}

// noteIssued is noteToken for new tokens.
func (rc *recent) noteIssued(issued Issued, k kin) {
	if rc != nil {
		rc.noteToken(issued.AccessToken.Hash(), k)
		rc.noteToken(issued.RefreshToken.Hash(), k)
	}
}

// keysOf returns the keys of what a token belongs to, if it is known.
func (rc *recent) keysOf(h secret.Hash) [][]byte {
	if rc == nil {
		return nil
	}
	k, ok := rc.tokens.Get(h)
	if !ok {
		return nil
	}
	return k.keys()
}

// noteClient remembers a client that has authenticated.
func (rc *recent) noteClient(c Client) {
	if rc != nil {
		c.isRemembered = true
		rc.clients.Add(c.ID, c)
	}
}

// naming is [kv.Naming] on an engine that gains by it.
func (s *Store) naming(ctx context.Context, keys func() [][]byte) context.Context {
	if !s.isShared {
		return ctx
	}
	return kv.Naming(ctx, keys)
}

// keysOfUse are those that recordTokenUse reads.
func (rc *recent) keysOfUse(token, confirms secret.Hash) [][]byte {
	keys := append(rc.keysOf(token), record.AccessTokenKey(token), record.RefreshTokenKey(token))
	if !confirms.IsZero() {
		keys = append(keys, record.RefreshTokenKey(confirms))
	}
	if k, ok := rc.tokens.Peek(token); ok {
		keys = append(keys, record.ClientUseKey(k.client))
	}
	return keys
}

// Sharing returns a context whose reads share one snapshot until end is called, or until
// something is written with it; see [kv.Share]. On an engine that no other process
// shares it returns ctx.
func (s *Store) Sharing(ctx context.Context) (shared context.Context, end func()) {
	if !s.isShared {
		return ctx, func() {}
	}
	return kv.Share(ctx)
}

type readingKey struct{}

// Reading returns a context that tells [Store.FindPrincipal] which keys are read next for the
// account of the token, to read them with the principal. Of a token that is not remembered
// nothing is known then. On an engine that no other process shares it returns ctx.
func (s *Store) Reading(ctx context.Context, keys func(account string) [][]byte) context.Context {
	if !s.isShared {
		return ctx
	}
	return context.WithValue(ctx, readingKey{}, keys)
}

// readNext returns the keys of Reading.
func (rc *recent) readNext(ctx context.Context, h secret.Hash) [][]byte {
	keys, isNamed := ctx.Value(readingKey{}).(func(string) [][]byte)
	if rc == nil || !isNamed {
		return nil
	}
	k, ok := rc.tokens.Peek(h)
	if !ok {
		return nil
	}
	return keys(k.account)
}

// ErrClientChanged means that a remembered client is no longer as it was.
var ErrClientChanged = errors.New("the client has changed")

// RememberedClient returns a client that has authenticated before and that may refresh, as it was
// then, if the presented secret was its own. It reads nothing. It is only for RotateRefresh, which
// compares it with the stored client. A wrong secret is never decided here: the client is read first
// then, so failed attempts never take the committers' turn.
func (s *Store) RememberedClient(id, presented string) (Client, bool) {
	if s.recent == nil {
		return Client{}, false
	}
	c, ok := s.recent.clients.Get(id)
	return c, ok && c.proves(presented) && c.Allows(GrantRefreshToken) && !c.Platform
}

// stands returns ErrClientChanged if the client is a remembered one that has changed since.
func (c Client) stands(r kv.Reader) error {
	if !c.isRemembered {
		return nil
	}
	now, err := readClient(r, c.ID)
	if record.IsAbsent(err) || err == nil && (now.Revision != c.Revision || now.Generation != c.Generation || !now.DisabledAt.IsZero()) {
		return ErrClientChanged
	}
	return err
}
