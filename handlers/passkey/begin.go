package passkey

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
)

// Lasts bounds the time that a user has for a ceremony.
const Lasts = 5 * time.Minute

// State is what finishing a ceremony needs of its beginning. A room seals it, together with the
// user, the browser's sign-in and the end, so that it serves nobody else, no other ceremony and
// no other time.
type State string

// The kinds of ceremony, as client data names them (WebAuthn §5.8.1).
const (
	ceremonyCreate = "webauthn.create"
	ceremonyUse    = "webauthn.get"
)

// newState returns a challenge for a ceremony of that kind: 130 random bits.
func newState(kind string) (State, string) {
	challenge := secret.Text(nil)
	return State(kind + " " + challenge), challenge
}

// The members of options, as PublicKeyCredential.parseCreationOptionsFromJSON and
// parseRequestOptionsFromJSON read them (WebAuthn §5.1.8, §5.1.9).
type (
	creationOptions struct {
		RP                 named        `json:"rp"`
		User               userEntity   `json:"user"`
		Challenge          base64URL    `json:"challenge"`
		Parameters         []parameter  `json:"pubKeyCredParams"`
		TimeoutMS          int64        `json:"timeout"`
		ExcludeCredentials []descriptor `json:"excludeCredentials"`
		Selection          selection    `json:"authenticatorSelection"`
		Attestation        string       `json:"attestation"`
	}
	requestOptions struct {
		Challenge        base64URL    `json:"challenge"`
		TimeoutMS        int64        `json:"timeout"`
		RPID             string       `json:"rpId"`
		AllowCredentials []descriptor `json:"allowCredentials"`
		UserVerification string       `json:"userVerification"`
	}
	named struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	userEntity struct {
		ID          base64URL `json:"id"`
		Name        string    `json:"name"`
		DisplayName string    `json:"displayName"`
	}
	parameter struct {
		Type      string    `json:"type"`
		Algorithm algorithm `json:"alg"`
	}
	descriptor struct {
		Type string    `json:"type"`
		ID   base64URL `json:"id"`
	}
	selection struct {
		ResidentKey      string `json:"residentKey"`
		UserVerification string `json:"userVerification"`
	}
)

const publicKey = "public-key" // the only type of a credential (WebAuthn §5.8.2)

// BeginCreate returns the options for making a passkey of the user. Those that the user has here
// are excluded, so that no device makes a second one. The instance's name is shown to the user.
//
// Our choice: it is a second step after a password, so neither a PIN nor a list of accounts on
// the device is asked for. Attestation would tell the model of the device, and nothing here
// depends on it.
func (a Address) BeginCreate(instance string, u store.User, own []store.Passkey) (options string, state State) {
	state, challenge := newState(ceremonyCreate)
	o := creationOptions{
		RP:                 named{a.RPID, instance},
		User:               userEntity{handleOf(u), u.Username, u.Username},
		Challenge:          base64URL(challenge),
		TimeoutMS:          Lasts.Milliseconds(),
		ExcludeCredentials: descriptors(a.Here(own)),
		Selection:          selection{"discouraged", "discouraged"},
		Attestation:        "none",
	}
	for _, alg := range algorithms {
		o.Parameters = append(o.Parameters, parameter{publicKey, alg})
	}
	return text(o), state
}

// BeginUse returns the options for using one of the user's passkeys.
func (a Address) BeginUse(own []store.Passkey) (options string, state State) {
	state, challenge := newState(ceremonyUse)
	return text(requestOptions{
		Challenge: base64URL(challenge), TimeoutMS: Lasts.Milliseconds(), RPID: a.RPID,
		AllowCredentials: descriptors(a.Here(own)), UserVerification: "discouraged",
	}), state
}

// Here returns the passkeys that work at this address.
func (a Address) Here(own []store.Passkey) []store.Passkey {
	return slices.DeleteFunc(slices.Clone(own), func(p store.Passkey) bool { return p.RPID != a.RPID })
}

// handleOf is the name of a user on the device (WebAuthn §4, user handle).
func handleOf(u store.User) base64URL { return base64URL(u.Subject()) }

func descriptors(passkeys []store.Passkey) []descriptor {
	all := []descriptor{}
	for _, p := range passkeys {
		all = append(all, descriptor{publicKey, p.ID})
	}
	return all
}

func text(options any) string {
	b, err := json.Marshal(options)
	if err != nil {
		panic(fmt.Sprintf("passkey: options have no JSON: %v", err))
	}
	return string(b)
}
