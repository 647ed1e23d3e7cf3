package moving

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Passkey is a WebAuthn credential of a user.
type Passkey struct {
	ID        string `json:"id"`         // base64url without padding, as browsers give it
	PublicKey string `json:"public_key"` // COSE, in base64url without padding
	Count     uint32 `json:"sign_count"`
	RPID      string `json:"rp_id"`
	Name      string `json:"name"`
	Synced    bool   `json:"backup_eligible"`
}

// passkeyMembers are the names of a passkey's members.
const passkeyMembers = "id, public_key, sign_count, rp_id, name, backup_eligible"

// UnmarshalJSON refuses unknown members. Errors: *Error.
func (p *Passkey) UnmarshalJSON(text []byte) error {
	type plain Passkey
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode((*plain)(p))
	wrong := (*json.UnmarshalTypeError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.Field != "":
		return &Error{Code: InvalidValue, Param: "user.passkeys", Reason: "the member " + wrong.Field + " of a passkey has another type or range", Hint: "give " + wantedPasskey(wrong.Field)}
	}
	return &Error{Code: UnknownMember, Param: "user.passkeys", Reason: "a passkey is not an object of known members", Hint: "the members are " + passkeyMembers}
}

func wantedPasskey(member string) string {
	switch {
	case strings.HasPrefix(member, "sign_count"):
		return "a whole number"
	case strings.HasPrefix(member, "backup"):
		return "true or false"
	}
	return "a string"
}
