package pgkv

import (
	"slices"

	"github.com/jackc/pgx/v5"
)

// libpqParam is a parameter of libpq that pgx does not know and would send to the server, which
// would refuse it.
type libpqParam struct {
	harmless []string // values that change nothing here; nil means all
	refusal  string   // why other values are refused
}

// libpqParams are those of PostgreSQL 18. Connections have keepalives and a time limit of ours,
// are in UTF-8 and never compressed, and only one host is the primary.
var libpqParams = map[string]libpqParam{
	"client_encoding":           {},
	"fallback_application_name": {},
	"gssdelegation":             {},
	"gsslib":                    {},
	"keepalives":                {},
	"keepalives_count":          {},
	"keepalives_idle":           {},
	"keepalives_interval":       {},
	"load_balance_hosts":        {},
	"sslcompression":            {},
	"tcp_user_timeout":          {},

	"gssencmode":               {[]string{"disable", "prefer"}, "tollhouse does not encrypt with GSSAPI"},
	"requiressl":               {[]string{"0"}, "sslmode takes its place"},
	"ssl_max_protocol_version": {[]string{"", "TLSv1.3"}, "tollhouse limits TLS only from below"},
	"ssl_min_protocol_version": {[]string{"", "TLSv1", "TLSv1.1", "TLSv1.2"}, "tollhouse uses TLS 1.2 or newer, and cannot be limited further"},

	"hostaddr":            {[]string{}, "give the address as the host"},
	"oauth_client_id":     {[]string{}, "tollhouse has no OAuth for databases"},
	"oauth_client_secret": {[]string{}, "tollhouse has no OAuth for databases"},
	"oauth_issuer":        {[]string{}, "tollhouse has no OAuth for databases"},
	"oauth_scope":         {[]string{}, "tollhouse has no OAuth for databases"},
	"replication":         {[]string{"", "0", "off", "false", "no"}, "tollhouse does not replicate"},
	"requirepeer":         {[]string{}, "tollhouse cannot check who owns a socket"},
	"scram_client_key":    {[]string{}, "tollhouse signs in with the password"},
	"scram_server_key":    {[]string{}, "tollhouse signs in with the password"},
	"sslcrl":              {[]string{}, "tollhouse reads no revocation lists"},
	"sslcrldir":           {[]string{}, "tollhouse reads no revocation lists"},
	"sslkeylogfile":       {[]string{}, "tollhouse does not write down the keys of connections"},
}

// takeOutParams takes libpq's own parameters out of what is sent to the server, and refuses
// those that ask for what tollhouse does not do. Errors: *[AddressError].
func takeOutParams(config *pgx.ConnConfig) error {
	sent := config.RuntimeParams
	if name, has := sent["fallback_application_name"]; has && sent["application_name"] == "" {
		sent["application_name"] = name
	}
	for name, value := range sent {
		known, is := libpqParams[name]
		if is && known.harmless != nil && !slices.Contains(known.harmless, value) {
			return &AddressError{Param: name, Reason: known.refusal}
		}
		if is {
			delete(sent, name)
		}
	}
	return nil
}

// secretParams are parameters whose values others must not see.
var secretParams = []string{"oauth_client_secret", "password", "scram_client_key", "scram_server_key", "sslpassword"}
