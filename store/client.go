package store

import (
	"context"
	"errors"
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

// clientSecret is one live secret. A client has two while the old one overlaps.
type clientSecret struct {
	hash      secret.Hash
	createdAt time.Time
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

// ClientSpec is what an operator says of a client.
type ClientSpec struct {
	Name         string
	RedirectURIs []string
	Grants       []string // none: all that the client's kind may use
	Scopes       []string // none: not narrowed
	Public       bool
	Introspect   bool
}

// CreateClient makes a client with a random id and, unless it is public, a
// secret that is returned here and never again. Errors: *InvalidError.
func (s *Store) CreateClient(ctx context.Context, spec ClientSpec) (Client, secret.Token, error) {
	c := Client{ID: clientIDPrefix + strings.ToLower(secret.Text()), CreatedAt: s.Now()}
	return s.createClient(ctx, c, spec, secret.New(secret.ClientSecret))
}

// CreateFixedClient is CreateClient with an id and a secret chosen by the
// caller, for the demo of dev and for fixtures. Errors: *InvalidError, ErrExists.
func (s *Store) CreateFixedClient(ctx context.Context, id string, sec secret.Token, spec ClientSpec) (Client, error) {
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

// apply checks a spec and takes it over.
func (c *Client) apply(spec ClientSpec) error {
	grants, grantsErr := checkGrants(spec.Grants, spec.Public)
	scope, scopeErr := checkScopes(spec.Scopes)
	if err := errors.Join(checkName("name", spec.Name, false), checkRedirectURIs(spec.RedirectURIs, grants), grantsErr, scopeErr, checkPublic(spec)); err != nil {
		return err
	}
	c.Name, c.RedirectURIs, c.Grants, c.Scope = spec.Name, slices.Clone(spec.RedirectURIs), grants, scope
	c.Public, c.Introspect = spec.Public, spec.Introspect
	return nil
}

func checkPublic(spec ClientSpec) error {
	if spec.Public && spec.Introspect {
		return invalid("introspect", "make the client confidential", "a public client cannot prove who it is, so it may not introspect tokens")
	}
	return nil
}

func checkGrants(names []string, public bool) ([]Grant, error) {
	allowed := allGrants
	if public {
		allowed = publicGrants
	}
	if len(names) == 0 {
		return slices.Clone(allowed), nil
	}
	var grants []Grant
	for _, g := range allowed { // kept in one order, each once
		if slices.Contains(names, string(g)) {
			grants = append(grants, g)
		}
	}
	for _, name := range names {
		if slices.Contains(allowed, Grant(name)) {
			continue
		}
		var list []string
		for _, g := range allowed {
			list = append(list, string(g))
		}
		whose := "a client"
		if public {
			whose = "a public client"
		}
		return nil, invalid("grants", "use one or more of: "+strings.Join(list, ", "), "%q is not a grant that %s may use", shorten(name), whose)
	}
	return grants, nil
}

func checkScopes(names []string) (Scope, error) {
	var scope Scope
	for _, name := range names {
		bit, ok := scopeNamed(name)
		if !ok {
			return 0, invalid("scopes", "use one or more of: "+strings.Join(scopeNames[:], ", "), "%q is not a scope", shorten(name))
		}
		scope |= bit
	}
	return scope, nil
}

func checkRedirectURIs(uris []string, grants []Grant) error {
	if len(uris) == 0 && slices.Contains(grants, GrantAuthorizationCode) {
		return invalid("redirect_uris", "give --redirect-uri, or --grant password --grant refresh_token for a client without a browser",
			"a client with the authorization_code grant needs one redirect URI at least")
	}
	if len(uris) > redirectURICountMax {
		return invalid("redirect_uris", "remove those not in use", "a client has at most %d redirect URIs", redirectURICountMax)
	}
	for _, uri := range uris {
		if err := CheckRedirectURI(uri); err != nil {
			return err
		}
	}
	return nil
}

// AuthenticateClient returns the client when what it presented proves that it
// is the one (RFC 6749 §2.3). A public client presents an id and no secret.
// An unknown client, a wrong secret and a disabled client are one error, found
// in the same time. Errors: ErrMismatch.
func (s *Store) AuthenticateClient(ctx context.Context, id, presented string) (Client, error) {
	c, err := s.FindClient(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Client{}, err
	}
	known := err == nil
	hash := secret.HashOf(presented)
	proved := 0
	for i := range clientSecretsMax { // always as many comparisons
		var kept secret.Hash
		if i < len(c.secrets) {
			kept = c.secrets[i].hash
		}
		if hash.Equal(kept) {
			proved++
		}
	}
	if c.Public && presented == "" {
		proved++
	}
	if !known || proved == 0 || !c.DisabledAt.IsZero() {
		return Client{}, fmt.Errorf("authenticate client: %w", ErrMismatch)
	}
	return c, nil
}

// FindClient returns the client with that id. Errors: ErrNotFound.
func (s *Store) FindClient(ctx context.Context, id string) (c Client, err error) {
	if !isClientID(id) {
		return Client{}, fmt.Errorf("find client: %w", ErrNotFound)
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		c, err = readClient(r, id)
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

// ClientChange changes what is not nil. Redirect URIs are replaced, or else
// removed from and added to.
type ClientChange struct {
	Name               *string
	RedirectURIs       *[]string
	AddRedirectURIs    []string
	RemoveRedirectURIs []string
	Grants             *[]string
	Scopes             *[]string
	Introspect         *bool
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

// redirectURIs returns the list that the change leaves behind.
func (c ClientChange) redirectURIs(now []string) ([]string, error) {
	if c.RedirectURIs != nil {
		if len(c.AddRedirectURIs)+len(c.RemoveRedirectURIs) > 0 {
			return nil, invalid("redirect_uris", "replace the list, or add to it and remove from it", "redirect_uris replaces the whole list, so nothing can be added to it or removed from it at the same time")
		}
		return *c.RedirectURIs, nil
	}
	next := slices.Clone(now)
	for _, uri := range c.RemoveRedirectURIs {
		i := slices.Index(next, uri)
		if i < 0 {
			return nil, invalid("remove_redirect_uris", "tollhouse client show ID lists them", "the client has no such redirect URI to remove; they are compared byte by byte")
		}
		next = slices.Delete(next, i, i+1)
	}
	for _, uri := range c.AddRedirectURIs {
		if !slices.Contains(next, uri) {
			next = append(next, uri)
		}
	}
	return next, nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (c Client) spec() ClientSpec {
	var grants []string
	for _, g := range c.Grants {
		grants = append(grants, string(g))
	}
	return ClientSpec{Name: c.Name, RedirectURIs: c.RedirectURIs, Grants: grants, Scopes: c.Scope.Names(), Public: c.Public, Introspect: c.Introspect}
}

// RotateClientSecret gives a client a new secret, returned here and never
// again. The one before stays live, so that deployments can be moved one by
// one; the one before that dies. With revoke the old one dies at once, and so
// does every code and token of the client. Errors: ErrNotFound, *InvalidError
// for a public client.
func (s *Store) RotateClientSecret(ctx context.Context, id string, revoke bool) (Client, secret.Token, error) {
	sec := secret.New(secret.ClientSecret)
	c, err := s.changeClient(ctx, id, func(c *Client) error {
		if c.Public {
			return invalid("client_id", "a public client proves itself by PKCE alone", "the client is public and has no secret")
		}
		kept := c.secrets
		if revoke {
			kept = nil
			c.Generation++
		}
		c.secrets = append([]clientSecret{{hash: sec.Hash(), createdAt: s.Now()}}, kept...)
		c.secrets = c.secrets[:min(len(c.secrets), clientSecretsMax)]
		return nil
	})
	return c, sec, err
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

// clientHead reads the fields that every request depends on. They come first,
// so that a bearer check need not read the rest.
func (d *decoder) clientHead(id string) Client {
	return Client{ID: id, Generation: d.uint(), DisabledAt: d.time(), Scope: Scope(d.byte()), Public: d.bool(), Introspect: d.bool(), Name: d.str()}
}
