package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// Grant is one of the three ways of getting a token.
type Grant string

// The grants of the specification.
const (
	GrantPassword          Grant = "password"
	GrantAuthorizationCode Grant = "authorization_code"
	GrantRefreshToken      Grant = "refresh_token"
)

var (
	allGrants    = []Grant{GrantPassword, GrantAuthorizationCode, GrantRefreshToken}
	publicGrants = []Grant{GrantAuthorizationCode, GrantRefreshToken}
)

// Client is an OAuth client: a program that may ask for tokens.
type Client struct {
	ID           string
	Name         string // shown to the user who is asked to allow or deny it
	RedirectURIs []string
	Grants       []Grant
	Scope        Scope // ScopeUnstated when the client is not narrowed
	Public       bool  // has no secret; must use PKCE; no password grant
	Introspect   bool  // may introspect the tokens of every client
	DisabledAt   time.Time
	CreatedAt    time.Time
	Generation   uint64 // carried by codes and tokens; raised to end them all

	secrets []clientSecret
}

const (
	clientRecord     = 1
	clientSecretsMax = 2
	clientIDPrefix   = "tollhouse_"
	clientIDSizeMax  = 64 // bytes
)

// Allows reports whether the client may use the grant.
func (c Client) Allows(g Grant) bool { return slices.Contains(c.Grants, g) }

// RedirectsTo reports whether uri is one that the client registered.
func (c Client) RedirectsTo(uri string) bool {
	return slices.ContainsFunc(c.RedirectURIs, func(r string) bool { return MatchRedirectURI(r, uri) })
}

// GrantScope returns the scope that the client gets when it asks for asked, or
// false when it may not have it. A client that is narrowed and asks for none
// gets the list of its own, so that the answer states what was given.
func (c Client) GrantScope(asked Scope) (Scope, bool) {
	if asked == ScopeUnstated {
		return c.Scope, true
	}
	return asked, c.Scope.Covers(asked)
}

// CreateClient makes a client with a random id and, unless it is public, a
// secret that is returned here and never again. Errors: *InvalidError.
func (s *Store) CreateClient(ctx context.Context, spec ClientSpec) (Client, secret.Token, error) {
	c := Client{ID: clientIDPrefix + strings.ToLower(secret.Name()), CreatedAt: s.Now()}
	return s.createClient(ctx, c, spec, secret.New(secret.ClientSecret))
}

// CreateFixedClient is CreateClient with an id and a secret chosen by the
// caller, for the demo of dev and for fixtures. Errors: *InvalidError, ErrExists.
func (s *Store) CreateFixedClient(ctx context.Context, id string, sec secret.Token, spec ClientSpec) (Client, error) {
	if !isClientID(id) {
		return Client{}, invalid("client_id", "use letters, digits and signs, without spaces", "a client id has 1 to %d visible ASCII characters", clientIDSizeMax)
	}
	c, _, err := s.createClient(ctx, Client{ID: id, CreatedAt: s.Now()}, spec, sec)
	return c, err
}

func (s *Store) createClient(ctx context.Context, c Client, spec ClientSpec, sec secret.Token) (Client, secret.Token, error) {
	if err := c.apply(spec); err != nil {
		return Client{}, secret.Token{}, err
	}
	if c.Public {
		sec = secret.Token{}
	} else {
		c.secrets = []clientSecret{{hash: sec.Hash(), createdAt: s.Now()}}
	}
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		_, err := tx.Get(clientKey(c.ID))
		if err == nil {
			return ErrExists
		}
		if !isAbsent(err) {
			return err
		}
		return writeClient(tx, c)
	})
	if err != nil {
		return Client{}, secret.Token{}, fmt.Errorf("create client: %w", err)
	}
	s.origins.forget()
	return c, sec, nil
}

// FindClient returns the client with that id. Errors: ErrNotFound.
func (s *Store) FindClient(ctx context.Context, id string) (c Client, err error) {
	if !isClientID(id) {
		return Client{}, fmt.Errorf("find client: %w", ErrNotFound)
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		if c, err = readClient(r, id); isAbsent(err) {
			standInClient.take() // its read took as long as one that finds something
		}
		return err
	})
	if err != nil {
		return Client{}, fmt.Errorf("find client: %w", err)
	}
	return c, nil
}

// ListClients returns at most limit clients with ids after the one given.
func (s *Store) ListClients(ctx context.Context, after string, limit int) ([]Client, error) {
	return list(ctx, s.db, newKey(tagClient), after, limit, func(k, v []byte) (Client, error) {
		id, _ := cutString(k)
		return decodeClient(id, v)
	})
}

// UpdateClient changes a client. Errors: *InvalidError, ErrNotFound.
func (s *Store) UpdateClient(ctx context.Context, id string, change ClientChange) (Client, error) {
	return s.changeClient(ctx, id, func(c *Client) error {
		spec := c.spec()
		set(&spec.Name, change.Name)
		uris, err := change.redirectURIs(spec.RedirectURIs)
		if err != nil {
			return err
		}
		spec.RedirectURIs = uris
		set(&spec.Grants, change.Grants)
		set(&spec.Scopes, change.Scopes)
		set(&spec.Introspect, change.Introspect)
		return c.apply(spec)
	})
}

// DisableClient refuses a client and ends its codes and tokens. To do it twice
// is no error. Errors: ErrNotFound.
func (s *Store) DisableClient(ctx context.Context, id string) (Client, error) {
	return s.changeClient(ctx, id, func(c *Client) error {
		if c.DisabledAt.IsZero() {
			c.DisabledAt = s.Now()
			c.Generation++
		}
		return nil
	})
}

// EnableClient accepts a client again. It revives nothing. Errors: ErrNotFound.
func (s *Store) EnableClient(ctx context.Context, id string) (Client, error) {
	return s.changeClient(ctx, id, func(c *Client) error {
		c.DisabledAt = time.Time{}
		return nil
	})
}

func (s *Store) changeClient(ctx context.Context, id string, change func(*Client) error) (c Client, err error) {
	if !isClientID(id) {
		return Client{}, fmt.Errorf("change client: %w", ErrNotFound)
	}
	err = s.db.Update(ctx, func(tx kv.Txn) error {
		if c, err = readClient(tx, id); err != nil {
			return err
		}
		if err := change(&c); err != nil {
			return err
		}
		return writeClient(tx, c)
	})
	if err != nil {
		return Client{}, fmt.Errorf("change client: %w", err)
	}
	s.origins.forget()
	return c, nil
}

// DeleteClient removes a client. Its codes and tokens die with the record; what
// is left of them is cleared away behind it. Errors: ErrNotFound.
func (s *Store) DeleteClient(ctx context.Context, id string) error {
	if !isClientID(id) {
		return fmt.Errorf("delete client: %w", ErrNotFound)
	}
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		if _, err := readClient(tx, id); err != nil {
			return err
		}
		return tx.Delete(clientKey(id))
	})
	s.origins.forget()
	if err == nil {
		err = s.deleteFamilies(ctx, clientFamiliesKey(id))
	}
	if err != nil {
		return fmt.Errorf("delete client: %w", err)
	}
	return nil
}

// isClientID reports whether id could name a client: what could not is unknown
// before the store is asked.
func isClientID(id string) bool {
	if id == "" || len(id) > clientIDSizeMax {
		return false
	}
	for i := range len(id) {
		if c := id[i]; c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

func readClient(r kv.Reader, id string) (Client, error) {
	v, err := r.Get(clientKey(id))
	if err != nil {
		return Client{}, found(err)
	}
	return decodeClient(id, v)
}

func writeClient(tx kv.Txn, c Client) error {
	return tx.Set(clientKey(c.ID), encodeClient(c), time.Time{})
}

func encodeClient(c Client) []byte {
	e := newEncoder(clientRecord)
	e.uint(c.Generation)
	e.time(c.DisabledAt)
	e.byte(byte(c.Scope))
	e.bool(c.Public)
	e.bool(c.Introspect)
	e.str(c.Name)
	e.strs(c.RedirectURIs)
	e.strs(c.spec().Grants)
	e.time(c.CreatedAt)
	e.uint(uint64(len(c.secrets)))
	for _, s := range c.secrets {
		e.hash(s.hash)
		e.time(s.createdAt)
	}
	return e.b
}

func decodeClient(id string, v []byte) (Client, error) {
	d := newDecoder("client", clientRecord, v)
	c := d.clientHead(id)
	c.RedirectURIs = d.strs()
	for _, g := range d.strs() {
		c.Grants = append(c.Grants, Grant(g))
	}
	c.CreatedAt = d.time()
	n := d.uint()
	if n > clientSecretsMax {
		d.fail("has more secrets than a client may have")
	}
	for range min(n, clientSecretsMax) {
		c.secrets = append(c.secrets, clientSecret{hash: d.hash(), createdAt: d.time()})
	}
	return c, d.done()
}

// decodeClientHead reads the fields that every request depends on alone.
func decodeClientHead(id string, v []byte) (Client, error) {
	d := newDecoder("client", clientRecord, v)
	c := d.clientHead(id)
	return c, d.err
}

// clientHead reads the fields that every request depends on. They come first,
// so that a bearer check need not read the rest.
func (d *decoder) clientHead(id string) Client {
	return Client{ID: id, Generation: d.uint(), DisabledAt: d.time(), Scope: Scope(d.byte()), Public: d.bool(), Introspect: d.bool(), Name: d.str()}
}
