package store

import (
	"errors"
	"slices"
	"strings"

	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// ClientSpec is an operator's description of a client.
type ClientSpec struct {
	Name         string
	RedirectURIs []string
	Grants       []string // empty means all that its kind of client may use
	Scopes       []string // empty means not narrowed
	Public       bool
	Introspect   bool
	Consent      string // ConsentAsk, which empty means too, or ConsentRemember
	Account      string // for which it acts by the client_credentials grant
	Platform     bool   // a platform client, which names its scopes and has no account
}

// How a client's users are asked for consent.
const (
	ConsentAsk      = "ask"      // each time
	ConsentRemember = "remember" // not while what they allowed is valid
)

// ClientChange changes the fields that are not nil. Redirect URIs are either replaced,
// or added and removed.
type ClientChange struct {
	Name               *string
	RedirectURIs       *[]string
	AddRedirectURIs    []string
	RemoveRedirectURIs []string
	Grants             *[]string
	Scopes             *[]string
	Introspect         *bool
	Consent            *string
	Account            *string
}

// apply checks a spec and copies it into c. A fixture may have redirect URIs that
// only a test uses. epoch is for a client that remembers consents and changes what its
// users allowed.
func (c *Client) apply(spec ClientSpec, epoch secret.ID, fixture bool) error {
	grants, grantsErr := checkGrants(spec)
	scope, scopeErr := checkScopes(spec)
	if err := errors.Join(checkName("name", spec.Name, false), c.checkRedirectURIs(spec, grants, fixture), grantsErr, scopeErr, checkPublic(spec), checkConsent(spec), checkClientAccount(spec, grants)); err != nil {
		return err
	}
	switch {
	case spec.Consent != ConsentRemember:
		c.ConsentEpoch = secret.ID{}
	case c.ConsentEpoch.IsZero() || c.Name != spec.Name || !slices.Equal(c.RedirectURIs, spec.RedirectURIs) || !slices.Equal(c.Grants, grants) || c.Scope != scope:
		c.ConsentEpoch = epoch
	}
	c.Name, c.RedirectURIs, c.Grants, c.Scope = spec.Name, slices.Clone(spec.RedirectURIs), grants, scope
	c.Public, c.Introspect, c.Account, c.Platform = spec.Public, spec.Introspect, spec.Account, spec.Platform
	return nil
}

func checkPublic(spec ClientSpec) error {
	switch {
	case spec.Public && spec.Platform:
		return record.Invalid("public", "make the client confidential", "a platform client has a secret")
	case spec.Public && spec.Introspect:
		return record.Invalid("introspect", "make the client confidential", "a public client cannot authenticate, so it may not introspect tokens")
	}
	return nil
}

// checkConsent refuses to remember consents to a public client: anybody can be one (RFC
// 8252 §8.6, RFC 9700 §4.13).
func checkConsent(spec ClientSpec) error {
	switch {
	case spec.Consent != "" && spec.Consent != ConsentAsk && spec.Consent != ConsentRemember:
		return record.Invalid("consent", "use ask or remember", "%q is not a way to ask for consent", shorten(spec.Consent))
	case spec.Platform && spec.Consent == ConsentRemember:
		return record.Invalid("consent", "leave it out", "a platform client acts without users, so nobody is asked for consent")
	case spec.Public && spec.Consent == ConsentRemember:
		return record.Invalid("consent", "use ask, or make the client confidential", "a public client has no secret, so any program can act as it and its users are asked each time")
	}
	return nil
}

// checkClientAccount checks that a client has an account if it may act for one without a
// user, and only then. A platform client names the account in each request.
func checkClientAccount(spec ClientSpec, grants []Grant) error {
	acts := slices.Contains(grants, GrantClientCredentials)
	switch {
	case spec.Platform && spec.Account != "":
		return record.Invalid("account", "leave it out; requests name the account in the header Tollhouse-Account", "a platform client belongs to no account")
	case spec.Platform:
		return nil
	case acts && spec.Account == "":
		return record.Invalid("account", "name the account", "a client with the client_credentials grant acts for one account")
	case spec.Account == "":
		return nil
	case !acts && grants != nil:
		return record.Invalid("account", "leave it out, or add the client_credentials grant", "only a client with the client_credentials grant acts for an account without a user")
	}
	return record.CheckAccountID(spec.Account)
}

func checkGrants(spec ClientSpec) ([]Grant, error) {
	names, allowed, usual, whose := spec.Grants, allGrants, userGrants, "a client"
	switch {
	case spec.Platform:
		allowed, usual, whose = platformGrants, platformGrants, "a platform client"
	case spec.Public:
		allowed, usual, whose = publicGrants, publicGrants, "a public client"
	}
	if len(names) == 0 {
		return slices.Clone(usual), nil
	}
	var grants []Grant
	for _, g := range allowed { // stored in a fixed order without duplicates
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
		return nil, record.Invalid("grants", "use one or more of: "+strings.Join(list, ", "), "%q is not a grant that %s may use", shorten(name), whose)
	}
	return grants, nil
}

func checkScopes(spec ClientSpec) (Scope, error) {
	allowed := ScopeData
	if spec.Platform {
		allowed |= ScopePlatform
	}
	hint := "use one or more of: " + strings.Join(allowed.Names(), ", ")
	if spec.Platform && len(spec.Scopes) == 0 {
		return 0, record.Invalid("scopes", hint, "a platform client has the scopes that it names, and names none")
	}
	var scope Scope
	for _, name := range spec.Scopes {
		bit, ok := scopeNamed(name)
		switch {
		case !ok:
			return 0, record.Invalid("scopes", hint, "%q is not a scope", shorten(name))
		case bit&allowed == 0:
			return 0, &record.InvalidError{Field: "scopes", Reason: "only a platform client can have the scope " + name, Hint: hint, Code: "invalid_scope"}
		}
		scope |= bit
	}
	return scope, nil
}

// checkRedirectURIs checks those that the client does not have yet.
func (c *Client) checkRedirectURIs(spec ClientSpec, grants []Grant, fixture bool) error {
	if spec.Platform && len(spec.RedirectURIs) > 0 {
		return record.Invalid("redirect_uris", "leave them out", "a platform client acts without users, so it has no redirect URI")
	}
	if len(spec.RedirectURIs) == 0 && slices.Contains(grants, GrantAuthorizationCode) {
		return record.Invalid("redirect_uris", "give --redirect-uri, or --grant password --grant refresh_token for a client without a browser",
			"a client with the authorization_code grant needs at least one redirect URI")
	}
	if len(spec.RedirectURIs) > redirectURICountMax {
		return record.Invalid("redirect_uris", "remove those not in use", "a client has at most %d redirect URIs", redirectURICountMax)
	}
	for _, uri := range spec.RedirectURIs {
		if slices.Contains(c.RedirectURIs, uri) {
			continue
		}
		if err := checkRedirectURI(uri, fixture); err != nil {
			return err
		}
	}
	return nil
}

// of returns a client's description after the change.
func (c ClientChange) of(spec ClientSpec) (ClientSpec, error) {
	uris, err := c.redirectURIs(spec.RedirectURIs)
	if err != nil {
		return spec, err
	}
	spec.RedirectURIs = uris
	set(&spec.Name, c.Name)
	set(&spec.Grants, c.Grants)
	set(&spec.Scopes, c.Scopes)
	set(&spec.Introspect, c.Introspect)
	set(&spec.Consent, c.Consent)
	set(&spec.Account, c.Account)
	if c.Account == nil && !slices.Contains(spec.Grants, string(GrantClientCredentials)) {
		spec.Account = ""
	}
	return spec, nil
}

// redirectURIs returns the list after the change.
func (c ClientChange) redirectURIs(now []string) ([]string, error) {
	if c.RedirectURIs != nil {
		if len(c.AddRedirectURIs)+len(c.RemoveRedirectURIs) > 0 {
			return nil, record.Invalid("redirect_uris", "either replace the list, or add to it and remove from it", "redirect_uris replaces the whole list, so nothing can be added to it or removed from it at the same time")
		}
		return *c.RedirectURIs, nil
	}
	next := slices.Clone(now)
	for _, uri := range c.RemoveRedirectURIs {
		i := slices.Index(next, uri)
		if i < 0 {
			return nil, record.Invalid("remove_redirect_uris", "tollhouse client show ID lists them", "the client has no such redirect URI to remove; they are compared byte by byte")
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
	return ClientSpec{Name: c.Name, RedirectURIs: c.RedirectURIs, Grants: grants, Scopes: c.Scope.Names(), Public: c.Public, Introspect: c.Introspect, Consent: c.Consent(), Account: c.Account, Platform: c.Platform}
}

// Consent returns how the client's users are asked: ConsentAsk or ConsentRemember.
func (c Client) Consent() string {
	if c.ConsentEpoch.IsZero() {
		return ConsentAsk
	}
	return ConsentRemember
}
