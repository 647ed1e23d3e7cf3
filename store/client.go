package store

import (
	"bytes"
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

// Grant is one of the grant types.
type Grant string

// The specification's grant types, and that of a client that acts for itself (RFC 6749
// §4.4).
const (
	GrantPassword          Grant = "password"
	GrantAuthorizationCode Grant = "authorization_code"
	GrantRefreshToken      Grant = "refresh_token"
	GrantClientCredentials Grant = "client_credentials"
)

var (
	userGrants   = []Grant{GrantPassword, GrantAuthorizationCode, GrantRefreshToken} // of a client by default
	allGrants    = append(slices.Clone(userGrants), GrantClientCredentials)
	publicGrants = []Grant{GrantAuthorizationCode, GrantRefreshToken}

	platformGrants = []Grant{GrantClientCredentials}
)

// Client is an OAuth client.
type Client struct {
	ID           string
	Name         string // shown on the consent screen
	RedirectURIs []string
	Grants       []Grant
	Scope        Scope // ScopeUnstated if the client is not narrowed
	Public       bool  // has no secret; must use PKCE; no password grant
	Introspect   bool  // may introspect the tokens of every client
	Platform     bool  // acts for any account, and has the scopes of ScopePlatform that it names
	DisabledAt   time.Time
	CreatedAt    time.Time
	Generation   uint64 // codes and tokens carry it; raising it invalidates them all
	Revision     uint64 // rises with every change
	Account      string // for which it acts by the client_credentials grant; "" without it
	// ConsentEpoch is stored with remembered consents; a new one invalidates them. It is
	// zero if users are asked each time.
	ConsentEpoch secret.ID

	secrets          []clientSecret
	importedRevision uint64 // the revision that an import wrote, or 0
	isRemembered     bool   // see RememberedClient
}

const (
	clientRecord = 1

	clientSecretsMax = 2
	clientIDPrefix   = "tollhouse_"
	// ClientIDSizeMax limits a client id, in bytes.
	ClientIDSizeMax = 255
	// clientsMax limits the clients of a store: engines keep all in memory.
	clientsMax = 100_000
)

// ErrTooManyClients means that the store has as many clients as it may have.
var ErrTooManyClients = errors.New("too many clients")

// Allows reports whether the client may use the grant.
func (c Client) Allows(g Grant) bool { return slices.Contains(c.Grants, g) }

// RedirectsTo reports whether the client has registered uri.
func (c Client) RedirectsTo(uri string) bool {
	return slices.ContainsFunc(c.RedirectURIs, func(r string) bool { return MatchRedirectURI(r, uri) })
}

// GrantScope returns the scope to grant for the requested scope, or false if the
// client may not have it. A narrowed client that requests no scope gets its own list,
// so that the answer states what was granted.
func (c Client) GrantScope(asked Scope) (Scope, bool) {
	if asked == ScopeUnstated {
		return c.Scope, true
	}
	return asked, c.Scope.Covers(asked)
}

// CreateClient creates a client with a random id. Unless it is public, it also returns
// the client's secret, which cannot be read again. Errors: *InvalidError, ErrTooManyClients, those
// of the guards.
func (s *Store) CreateClient(ctx context.Context, spec ClientSpec, guards ...Guard) (Client, secret.Token, error) {
	return s.createClient(ctx, s.newClientID(), spec, secret.New(s.random, secret.ClientSecret), false, guards)
}

// PutClient replaces the settings of a client, or creates it if there is none of that id, as
// CreateClient does. A client stays public or confidential. Errors: *InvalidError,
// ErrTooManyClients, those of the guards; ErrConflict if others kept creating and deleting it.
func (s *Store) PutClient(ctx context.Context, id string, spec ClientSpec, guards ...Guard) (c Client, sec secret.Token, created bool, err error) {
	for range putAttemptsMax {
		c, err = s.changeSpec(ctx, id, guards, func(now ClientSpec) (ClientSpec, error) {
			if now.Public != spec.Public {
				return spec, record.Invalid("public", "create another client", "a client stays public or confidential")
			}
			return spec, nil
		})
		if !errors.Is(err, record.ErrNotFound) {
			return c, secret.Token{}, false, err
		}
		if err := errors.Join(checkNewClientID(id), checks(guards).absent()); err != nil {
			return Client{}, secret.Token{}, false, err
		}
		c, sec, err = s.createClient(ctx, id, spec, secret.New(s.random, secret.ClientSecret), false, guards)
		if !errors.Is(err, record.ErrExists) {
			return c, sec, true, err
		}
	}
	return Client{}, secret.Token{}, false, fmt.Errorf("put client: %w", record.ErrConflict)
}

// putAttemptsMax bounds how often PutClient looks again after another request has created or
// deleted the client.
const putAttemptsMax = 5

// checkNewClientID checks an id that the caller chose.
func checkNewClientID(id string) error {
	if strings.HasPrefix(id, clientIDPrefix) {
		return record.Invalid("client_id", "choose another id, or create the client without one", "ids that begin with %s are drawn by the server", clientIDPrefix)
	}
	return checkClientID(id)
}

func checkClientID(id string) error {
	if !IsClientID(id) {
		return record.Invalid("client_id", "use letters, digits and signs, without spaces", "a client id has 1 to %d visible ASCII characters and is not . or ..", ClientIDSizeMax)
	}
	return nil
}

func (s *Store) newClientID() string { return secret.Name(s.random, clientIDPrefix) }

// CreateFixedClient is CreateClient with a given id and secret, for the demo of dev
// and for fixtures. An empty id is drawn. Errors: *InvalidError, ErrExists.
func (s *Store) CreateFixedClient(ctx context.Context, id string, sec secret.Token, spec ClientSpec) (Client, error) {
	if id == "" {
		id = s.newClientID()
	}
	if err := checkClientID(id); err != nil {
		return Client{}, err
	}
	c, _, err := s.createClient(ctx, id, spec, sec, s.fixtures, nil)
	return c, err
}

func (s *Store) createClient(ctx context.Context, id string, spec ClientSpec, sec secret.Token, fixture bool, guards checks) (Client, secret.Token, error) {
	c := Client{ID: id, CreatedAt: s.Now(), Generation: secret.NewCount(s.random), Revision: secret.NewCount(s.random)}
	if err := c.apply(spec, secret.NewID(nil), fixture); err != nil {
		return Client{}, secret.Token{}, err
	}
	if c.Public {
		sec = secret.Token{}
	} else {
		c.secrets = []clientSecret{{hash: sec.Hash(), createdAt: s.Now(), lent: isPlatforms(ctx)}}
	}
	line := s.change(ctx, "client created")
	err := guards.guarded(s.db).Update(ctx, func(tx kv.Txn) error {
		_, err := tx.Get(record.ClientKey(c.ID))
		if err == nil {
			return record.ErrExists
		}
		if !record.IsAbsent(err) {
			return err
		}
		if fixture && c.isFixture(sec) {
			if err := s.markFixture(tx); err != nil {
				return err
			}
		}
		if err := errors.Join(guards.becomes(c), s.accountOf(tx, c, guards)); err != nil {
			return err
		}
		count, err := countClientChange(tx, 1)
		if err == nil && count > s.clientsMax {
			err = ErrTooManyClients
		}
		if err != nil {
			return err
		}
		return errors.Join(tx.Set(record.ClientKey(c.ID), encodeClient(c), time.Time{}), line.ofClient(tx, c.ID))
	})
	if err != nil {
		return Client{}, secret.Token{}, fmt.Errorf("create client: %w", err)
	}
	if c.gains(Client{}) {
		s.happened(ctx, HappenedPrivileges, c.ID)
	}
	return c, sec, nil
}

// gains reports whether a platform client has a right that it had not before.
func (c Client) gains(before Client) bool {
	return c.Platform && (!before.Platform || c.Scope.Beyond(before.Scope) != 0)
}

// FindClient returns the client with that id. Errors: ErrNotFound.
func (s *Store) FindClient(ctx context.Context, id string) (Client, error) {
	c, err := s.findClient(ctx, id, decodeClient)
	if err != nil {
		return Client{}, fmt.Errorf("find client: %w", err)
	}
	return c, nil
}

func (s *Store) findClient(ctx context.Context, id string, decode func(id string, v []byte) (Client, error)) (c Client, err error) {
	if !IsClientID(id) {
		return Client{}, record.ErrNotFound
	}
	err = s.db.View(ctx, func(r kv.Reader) error {
		if c, err = record.Read(r, record.ClientKey(id), id, decode); record.IsAbsent(err) {
			return refuseClient(decode)
		}
		return err
	})
	return c, err
}

// ListClients returns up to limit clients with ids after the given one.
func (s *Store) ListClients(ctx context.Context, after string, limit int) ([]Client, error) {
	return record.List(ctx, s.db, record.NewKey(record.TagClient), after, limit, func(k, v []byte) (Client, error) {
		id, _ := record.CutString(k)
		return decodeClient(id, v)
	})
}

// UpdateClient changes a client. Its webhook endpoints are disabled if it no longer acts for
// the account or may no longer create endpoints. Errors: *InvalidError, ErrNotFound, those of the
// guards.
func (s *Store) UpdateClient(ctx context.Context, id string, change ClientChange, guards ...Guard) (Client, error) {
	return s.changeSpec(ctx, id, guards, change.of)
}

// changeSpec gives a client the description that next returns for its present one.
func (s *Store) changeSpec(ctx context.Context, id string, guards checks, next func(ClientSpec) (ClientSpec, error)) (Client, error) {
	epoch := secret.NewID(nil)
	var before Client
	c, err := s.endClient(ctx, id, "client updated", guards, func(tx kv.Txn, c *Client) (ends webhook.Reason, err error) {
		before = *c
		spec, err := next(c.spec())
		if err != nil {
			return "", err
		}
		if err := c.apply(spec, epoch, false); err != nil {
			return "", err
		}
		if err := before.mayBecome(*c); err != nil {
			return "", err
		}
		if !c.Scope.Covers(scopePush) {
			ends = webhook.ClientEnded
		}
		actsNoMore := c.Platform && before.Scope.Covers(ScopeAccountsAct) && !c.Scope.Covers(ScopeAccountsAct)
		if before.Account != "" && before.Account != c.Account || actsNoMore {
			c.Generation++ // its tokens act for the account of before
			ends = webhook.AuthorizationEnded
		}
		if err := guards.becomes(*c); err != nil { // before it could tell which accounts exist
			return "", err
		}
		return ends, s.accountOf(tx, *c, guards)
	})
	if err == nil && c.gains(before) {
		s.happened(ctx, HappenedPrivileges, c.ID)
	}
	return c, err
}

// DisableClient disables a client and its webhook endpoints and invalidates its codes and
// tokens. It is idempotent.
// Errors: ErrNotFound, those of the guards.
func (s *Store) DisableClient(ctx context.Context, id string, guards ...Guard) (Client, error) {
	return s.disableClient(ctx, id, "client disabled", guards)
}

func (s *Store) disableClient(ctx context.Context, id, reason string, guards checks) (Client, error) {
	return s.endClient(ctx, id, reason, guards, func(_ kv.Txn, c *Client) (webhook.Reason, error) {
		if c.DisabledAt.IsZero() {
			c.DisabledAt = s.Now()
			c.Generation++
		}
		return webhook.AuthorizationEnded, nil
	})
}

// EnableClient enables a client again, without its old codes and tokens. Errors:
// ErrNotFound, those of the guards.
func (s *Store) EnableClient(ctx context.Context, id string, guards ...Guard) (c Client, err error) {
	if !IsClientID(id) {
		return Client{}, fmt.Errorf("enable client: %w", record.ErrNotFound)
	}
	line := s.change(ctx, "client enabled")
	err = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) (err error) {
		c, err = checks(guards).changeClient(tx, id, line, func(c *Client) error {
			c.DisabledAt = time.Time{}
			return nil
		})
		return err
	})
	if err != nil {
		return Client{}, fmt.Errorf("enable client: %w", err)
	}
	return c, nil
}

// RevokeClient invalidates the codes and tokens of a client and disables its webhook endpoints.
// Errors: ErrNotFound, those of the guards.
func (s *Store) RevokeClient(ctx context.Context, id string, guards ...Guard) (Client, error) {
	return s.endClient(ctx, id, "all of the client revoked", guards, func(_ kv.Txn, c *Client) (webhook.Reason, error) {
		c.Generation++
		return webhook.AuthorizationEnded, nil
	})
}

// changeClient changes a client within tx, if the guards hold before and after, and writes the audit
// line. Without a change it writes nothing.
func (cs checks) changeClient(tx kv.Txn, id string, line changeLine, change func(*Client) error) (c Client, err error) {
	if err = cs.begin(tx); err == nil {
		c, err = readClient(tx, id)
	}
	if err == nil {
		err = cs.client(c)
	}
	was := encodeClient(c)
	if err == nil {
		err = change(&c)
	}
	if err == nil {
		err = cs.becomes(c)
	}
	if err != nil || bytes.Equal(was, encodeClient(c)) {
		return c, err
	}
	c.Revision++
	return c, errors.Join(writeClient(tx, c), line.ofClient(tx, id))
}

// endClient is for a change by an operator, even when the disk is full, that may invalidate the
// client's tokens or its right to have events pushed. It then disables the client's webhook
// endpoints, for the reason that change returns.
func (s *Store) endClient(ctx context.Context, id, reason string, guards checks, change func(kv.Txn, *Client) (webhook.Reason, error)) (c Client, err error) {
	if !IsClientID(id) {
		return Client{}, fmt.Errorf("end client: %w", record.ErrNotFound)
	}
	bound, err := s.Webhooks.BoundTo(ctx, id)
	if err != nil {
		return Client{}, fmt.Errorf("end client: %w", err)
	}
	line := s.change(ctx, reason)
	err = s.revoke(ctx, kv.Ruling, line.By, secret.NewTail(s.random), func(tx kv.Txn, n *webhook.Ending) error {
		var ends webhook.Reason
		c, err = guards.changeClient(tx, id, line, func(c *Client) (err error) {
			ends, err = change(tx, c)
			return err
		})
		if err != nil || ends == "" {
			return err
		}
		return n.Client(tx, id, bound, ends)
	})
	if err != nil {
		return Client{}, fmt.Errorf("end client: %w", err)
	}
	return c, nil
}

// DeleteClient deletes a client. It is disabled first, which invalidates its codes and tokens
// immediately, and its record is deleted last, so that a failed deletion can be repeated. Errors:
// ErrNotFound, those of the guards, also in between: then the client stays disabled.
func (s *Store) DeleteClient(ctx context.Context, id string, guards ...Guard) error {
	disabled, err := s.disableClient(ctx, id, "client deletion begun", guards)
	later := laterOf(guards)
	db := record.GuardedDB{DB: later.guarded(s.db), Check: func(r kv.Reader) error {
		c, err := readClient(r, id)
		if err == nil && (!c.CreatedAt.Equal(disabled.CreatedAt) || !c.DisabledAt.Equal(disabled.DisabledAt)) {
			// Another deletion may have finished, and a new client may have that id.
			err = record.ErrConflict
		}
		if err == nil {
			err = later.client(c)
		}
		return err
	}}
	if err == nil {
		err = deleteFamilies(ctx, db, record.ClientFamiliesKey(id))
	}
	if err == nil {
		line := s.change(ctx, "client deleted")
		err = record.UpdateAs(ctx, db, kv.Ruling, func(tx kv.Txn) error {
			if _, err := countClientChange(tx, -1); err != nil {
				return err
			}
			return errors.Join(record.DeleteKeys(tx, record.ClientKey(id), record.ClientUseKey(id)), line.ofClient(tx, id))
		})
	}
	if err != nil {
		return fmt.Errorf("delete client: %w", err)
	}
	return nil
}

// IsClientID reports whether id has the form of a client id. Others are refused before
// the store is read.
func IsClientID(id string) bool {
	if id == "" || len(id) > ClientIDSizeMax || id == "." || id == ".." {
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
	return record.Read(r, record.ClientKey(id), id, decodeClient)
}

// writeClient replaces a client.
func writeClient(tx kv.Txn, c Client) error {
	was, err := readClient(tx, c.ID)
	if err == nil && !slices.Equal(was.origins(), c.origins()) {
		_, err = countClientChange(tx, 0)
	}
	if err != nil {
		return err
	}
	return tx.Set(record.ClientKey(c.ID), encodeClient(c), time.Time{})
}

func encodeClient(c Client) []byte {
	e := record.NewEncoder(clientRecord)
	e.Uint(c.Generation)
	e.Time(c.DisabledAt)
	e.Uint(uint64(c.Scope))
	e.Bool(c.Public)
	e.Bool(c.Introspect)
	e.Bool(c.Platform)
	e.Str(c.Name)
	e.Strs(c.RedirectURIs)
	e.Strs(c.spec().Grants)
	e.Time(c.CreatedAt)
	e.Uint(uint64(len(c.secrets)))
	for _, s := range c.secrets {
		e.Hash(s.hash)
		e.Str(s.foreign)
		e.Bool(s.isShort)
		e.Bool(s.lent)
		e.Time(s.createdAt)
	}
	return e.ID(c.ConsentEpoch).Str(c.Account).Uint(c.Revision).Uint(c.importedRevision).B
}

func decodeClient(id string, v []byte) (Client, error) {
	d := record.NewDecoder("client", clientRecord, v)
	c := decodeClientFields(&d, id)
	c.RedirectURIs = d.Strs()
	for _, g := range d.Strs() {
		c.Grants = append(c.Grants, Grant(g))
	}
	c.CreatedAt = d.Time()
	n := d.Uint()
	if n > clientSecretsMax {
		d.Fail("has more secrets than a client may have")
	}
	for range min(n, clientSecretsMax) {
		c.secrets = append(c.secrets, clientSecret{hash: d.Hash(), foreign: d.Str(), isShort: d.Bool(), lent: d.Bool(), createdAt: d.Time()})
	}
	c.ConsentEpoch, c.Account, c.Revision, c.importedRevision = d.ID(), d.Str(), d.Uint(), d.Uint()
	return c, d.Done()
}

func decodeClientHead(id string, v []byte) (Client, error) {
	d := record.NewDecoder("client", clientRecord, v)
	c := decodeClientFields(&d, id)
	return c, d.Err
}

// decodeClientFields reads the fields that every request needs. They come first, so
// that a bearer check can skip the rest.
func decodeClientFields(d *record.Decoder, id string) Client {
	return Client{ID: id, Generation: d.Uint(), DisabledAt: d.Time(), Scope: decodeScope(d), Public: d.Bool(), Introspect: d.Bool(), Platform: d.Bool(), Name: d.Str()}
}
