// Package moving has the lines in which people bring a platform's records in, and take them
// out again: one JSON object a line, with one member that names the noun.
//
//	{"account":{"account":"acct_larkspur","name":"Larkspur"}}
//	{"user":{"username":"harriet","account":"acct_larkspur","password_hash":"$2y$10$…"}}
//
// An import, an export and the seed files of dev share them. [Reader] splits a file into
// lines, [Parse] makes a [Record] of one, and [Append] writes one. A Record is what the line
// says and no more: the store decides whether it may be kept, and what exists already. The
// package knows no store and no clock.
//
// A line may come from anybody's old database. So its parts are bounded, unknown and repeated
// members are refused, and no error repeats a value that may be a secret.
package moving

import "encoding/json"

// Record is what one line describes: an *Account, *Client, *User, *Resource, *Event, *Webhook
// or *Token.
type Record interface{ noun() string }

// Secret is a password, a secret or a token in a line. It is not printed.
type Secret string

// String returns a placeholder.
func (Secret) String() string { return "[redacted]" }

// GoString returns a placeholder.
func (Secret) GoString() string { return "[redacted]" }

// Hash is a hash of a password or a secret, as another system keeps it: a JSON string, or an
// object where it keeps several columns. It is not printed.
type Hash struct{ JSON []byte }

// String returns a placeholder.
func (Hash) String() string { return "[redacted]" }

// GoString returns a placeholder.
func (Hash) GoString() string { return "[redacted]" }

// IsZero reports whether there is no hash.
func (h Hash) IsZero() bool { return len(h.JSON) == 0 }

// MarshalJSON returns the hash as it was given.
func (h Hash) MarshalJSON() ([]byte, error) {
	if h.IsZero() {
		return []byte("null"), nil
	}
	return h.JSON, nil
}

// UnmarshalJSON takes any JSON value.
func (h *Hash) UnmarshalJSON(text []byte) error {
	h.JSON = append([]byte(nil), text...)
	return nil
}

// The members have the names that `account create`, `client create` and `user create` print.
// The tables in docs/import.md and docs/testing.md are made of them: does says what a member
// is, dev what differs in a seed file, and a member with only:"dev" is unknown elsewhere. A record
// with a member that makes:"import" is made as an import makes it, in a seed file too.
type (
	// Account is an account.
	Account struct {
		ID        string `json:"account" does:"required, its id"`
		Name      string `json:"name" does:"display name"`
		Disabled  bool   `json:"disabled,omitempty" does:"its users cannot sign in"`
		CreatedAt *int64 `json:"created_at,omitempty" does:"in Unix seconds; now if missing" makes:"import"`
	}
	// Client is an OAuth client with its secret, or the hash of it.
	Client struct {
		ClientID     string   `json:"client_id" does:"required, up to 255 visible ASCII characters" dev:"up to 255 visible ASCII characters; generated if missing"`
		ClientSecret *Secret  `json:"client_secret" does:"the secret itself; only its hash is kept; required unless public" dev:"any string; generated if missing"`
		SecretHash   Hash     `json:"client_secret_hash,omitzero" does:"in place of the secret, as the old system keeps it" makes:"import"`
		Name         string   `json:"name" does:"display name; its id if missing"`
		RedirectURIs []string `json:"redirect_uris" does:"where codes are sent"`
		Grants       []string `json:"grants" does:"password, authorization_code and refresh_token if missing"`
		Scopes       []string `json:"scopes" does:"what it is limited to; all if missing"`
		Public       bool     `json:"public" does:"it has no secret and must use PKCE"`
		Introspect   bool     `json:"introspect" does:"it may introspect the tokens of every client"`
		Consent      string   `json:"consent" does:"ask or remember; ask if missing"`
		Account      string   `json:"account" does:"used for client_credentials"`
		Platform     bool     `json:"platform" does:"a platform client, which names its scopes"`
		Disabled     bool     `json:"disabled" does:"it is refused everywhere"`
		CreatedAt    *int64   `json:"created_at,omitempty" does:"in Unix seconds; now if missing" makes:"import"`
	}
	// User is a user with a password, the hash of one, or neither.
	User struct {
		ID           string  `json:"user_id,omitempty" does:"usr_ and 26 characters, as exported; generated if missing" makes:"import"`
		Username     string  `json:"username" does:"required"`
		Password     *Secret `json:"password" does:"the password itself" dev:"required, any string"`
		PasswordHash Hash    `json:"password_hash,omitzero" does:"in place of the password, as the old system keeps it"`
		Account      string  `json:"account" does:"default if missing" dev:"acct_demo if missing"`
		Operator     bool    `json:"operator" does:"may use the desk"`
		Disabled     bool    `json:"disabled" does:"cannot sign in"`
		CreatedAt    *int64  `json:"created_at,omitempty" does:"in Unix seconds; now if missing" makes:"import"`

		TOTPSecret     *Secret   `json:"totp_secret,omitempty" does:"of an authenticator app of 6 digits, 30 seconds and SHA-1, in base32" makes:"import"`
		RecoverySHA256 []string  `json:"recovery_code_sha256,omitempty" does:"of up to 10 recovery codes, in hex" makes:"import"`
		Passkeys       []Passkey `json:"passkeys,omitempty" does:"up to 10 WebAuthn credentials" makes:"import"`
	}
	// Resource is a resource as it is now.
	Resource struct {
		Kind      string          `json:"kind" does:"required, such as customer"`
		ID        string          `json:"id" does:"required"`
		Object    json.RawMessage `json:"object" does:"required, the whole resource"`
		Account   string          `json:"account" does:"default if missing" dev:"the first account if missing"`
		CreatedAt *int64          `json:"createdAt" does:"of its event, in Unix seconds; now if missing"`
		Action    string          `json:"action" does:"of its event; created if missing"`
		Event     string          `json:"event,omitempty" does:"none for a resource without an event" makes:"import"`
	}
	// Event is an event. Its members are checked when it is recorded.
	Event struct {
		Owner string // the account, or "" if the line names none
		Text  []byte // of the event, in the form of an import of events
	}
	// Webhook is a webhook endpoint.
	Webhook struct {
		ID          string   `json:"id,omitempty" does:"wep_ and 26 characters, as exported; generated if missing" makes:"import"`
		URL         string   `json:"url" does:"required"`
		Account     string   `json:"account" does:"default if missing" dev:"the first account if missing"`
		Types       []string `json:"types" does:"such as customer.*; all if missing"`
		Secret      *Secret  `json:"secret" does:"whsec_ and base64; generated if missing"`
		Order       string   `json:"order" does:"strict or none; strict if missing"`
		Description string   `json:"description" does:"free text"`
		State       string   `json:"state,omitempty" does:"enabled or disabled; enabled if missing" makes:"import"`
		Cursor      string   `json:"cursor,omitempty" does:"the id of the last event that the receiver has; the last one there is if missing" makes:"import"`
	}
	// Token is an authorization: an access token, a refresh token, or both.
	Token struct {
		ClientID         string  `json:"client_id" does:"required"`
		Username         string  `json:"username" does:"required"`
		Scope            *string `json:"scope" does:"separated by spaces; all that the client may have if missing"`
		AccessToken      *Secret `json:"access_token" does:"the token itself; only its hash is kept"`
		AccessSHA256     *Secret `json:"access_token_sha256" does:"in place of the token, in hex" makes:"import"`
		ExpiresAt        *int64  `json:"expires_at" does:"of the access token, in Unix seconds"`
		RefreshToken     *Secret `json:"refresh_token" does:"the token itself; only its hash is kept"`
		RefreshSHA256    *Secret `json:"refresh_token_sha256" does:"in place of the token, in hex" makes:"import"`
		RefreshExpiresAt *int64  `json:"refresh_expires_at" does:"of the refresh token, in Unix seconds"`
		CreatedAt        *int64  `json:"created_at" does:"in Unix seconds; now if missing" makes:"import"`
		ExpiresIn        *int64  `json:"expires_in" does:"in seconds, 0 or less for an expired token; that of the instance if missing" only:"dev"`
		RefreshExpiresIn *int64  `json:"refresh_expires_in" does:"the same for the refresh token" only:"dev"`
	}
)

func (*Account) noun() string  { return "account" }
func (*Client) noun() string   { return "client" }
func (*User) noun() string     { return "user" }
func (*Resource) noun() string { return "resource" }
func (*Event) noun() string    { return "event" }
func (*Webhook) noun() string  { return "webhook" }
func (*Token) noun() string    { return "token" }

// NounOf returns the noun of a record, as its line names it.
func NounOf(r Record) string { return r.noun() }

// Nouns returns the nouns in the order in which a file has them.
func Nouns() []string {
	return []string{"account", "client", "user", "resource", "event", "webhook", "token"}
}

// newRecord returns an empty record of a noun, or nil if there is none of that name.
func newRecord(noun string) Record {
	switch noun {
	case "account":
		return &Account{}
	case "client":
		return &Client{}
	case "user":
		return &User{}
	case "resource":
		return &Resource{}
	case "event":
		return &Event{}
	case "webhook":
		return &Webhook{}
	case "token":
		return &Token{}
	}
	return nil
}
