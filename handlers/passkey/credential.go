package passkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/fxamacker/cbor/v2"

	"tollhouse/store/snapshot"
)

const (
	// CredentialSizeMax is in bytes. Credentials have 1 KiB or so.
	CredentialSizeMax = 16 << 10
	// depthMax is the nesting of a credential and of its client data. Known ones have 4.
	depthMax = 8
)

// base64URL is bytes that JSON has as base64url without padding (WebAuthn §5.1.8).
type base64URL []byte

func (b base64URL) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, b), nil
}

func (b *base64URL) UnmarshalText(text []byte) (err error) {
	*b, err = base64.RawURLEncoding.Strict().AppendDecode(nil, text)
	return err
}

// credential is what PublicKeyCredential.toJSON() gives (WebAuthn §5.1): of a passkey that was
// made the attestation object, of one that was used the signature.
type credential struct {
	ID       base64URL `json:"id"`
	RawID    base64URL `json:"rawId"`
	Type     string    `json:"type"`
	Response struct {
		ClientData        base64URL `json:"clientDataJSON"`
		AttestationObject base64URL `json:"attestationObject"`
		AuthenticatorData base64URL `json:"authenticatorData"`
		Signature         base64URL `json:"signature"`
		UserHandle        base64URL `json:"userHandle"`
	} `json:"response"`
}

func parseCredential(sent string) (c credential, err error) {
	if len(sent) > CredentialSizeMax {
		return c, errors.New("the credential is too large")
	}
	if err = unmarshal([]byte(sent), &c); err != nil {
		return c, err
	}
	if c.Type != publicKey || len(c.ID) == 0 || !bytes.Equal(c.ID, c.RawID) {
		return c, errors.New("the credential is no public key with one id")
	}
	return c, nil
}

// unmarshal reads JSON that is not deep and repeats no member.
func unmarshal(text []byte, to any) error {
	if _, err := snapshot.Parse(text, depthMax); err != nil {
		return err
	}
	return json.Unmarshal(text, to)
}

// clientData is what the browser saw of the ceremony (WebAuthn §5.8.1).
type clientData struct {
	Type        string `json:"type"`
	Challenge   string `json:"challenge"`
	Origin      string `json:"origin"`
	CrossOrigin bool   `json:"crossOrigin"`
	TopOrigin   string `json:"topOrigin"`
}

// checkClientData checks what the browser says of the ceremony (WebAuthn §7.1 steps 7–11, §7.2
// steps 10–14). A page of ours is never in another's frame.
func (a Address) checkClientData(text []byte, kind, challenge string) error {
	var d clientData
	if err := unmarshal(text, &d); err != nil {
		return err
	}
	switch {
	case d.Type != kind:
		return fmt.Errorf("the ceremony is %q", d.Type)
	case d.Challenge != base64.RawURLEncoding.EncodeToString([]byte(challenge)):
		return errors.New("the challenge is another")
	case d.Origin != a.Origin:
		return fmt.Errorf("the origin is %q, want %q", d.Origin, a.Origin)
	case d.CrossOrigin || d.TopOrigin != "":
		return errors.New("the page is in a frame of another site")
	}
	return nil
}

// authenticatorData is what the authenticator signs (WebAuthn §6.1).
type authenticatorData struct {
	hostHash []byte
	flags    byte
	count    uint32
	id, key  []byte // of a passkey that was made
}

const (
	userPresent       = 1 << 0
	backupEligible    = 1 << 3
	backedUp          = 1 << 4
	hasCredential     = 1 << 6
	hasExtensions     = 1 << 7
	aaguidSize        = 16
	credentialIDMax   = 1023 // bytes (WebAuthn §7.1 step 25)
	cborNestedMax     = 5
	authenticatorHead = sha256.Size + 1 + 4
)

// decoding reads CBOR as CTAP2 writes it.
var decoding = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxNestedLevels: cborNestedMax,
		IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
	}.DecMode()
	if err != nil {
		panic("passkey: options of CBOR: " + err.Error())
	}
	return mode
}()

var errShort = errors.New("the authenticator data is too short")

func parseAuthenticatorData(b []byte) (d authenticatorData, err error) {
	if len(b) < authenticatorHead {
		return d, errShort
	}
	d.hostHash, d.flags, d.count = b[:sha256.Size], b[sha256.Size], binary.BigEndian.Uint32(b[sha256.Size+1:])
	b = b[authenticatorHead:]
	if d.flags&hasCredential != 0 {
		if len(b) < aaguidSize+2 {
			return d, errShort
		}
		size := int(binary.BigEndian.Uint16(b[aaguidSize:]))
		if b = b[aaguidSize+2:]; size == 0 || size > credentialIDMax || size > len(b) {
			return d, errShort
		}
		var key cbor.RawMessage
		d.id = b[:size]
		if b, err = decoding.UnmarshalFirst(b[size:], &key); err != nil {
			return d, err
		}
		d.key = key
	}
	if d.flags&hasExtensions != 0 {
		var extensions map[string]cbor.RawMessage // none was asked for, and none is used
		if b, err = decoding.UnmarshalFirst(b, &extensions); err != nil {
			return d, err
		}
	}
	if len(b) > 0 {
		return d, errors.New("the authenticator data is too long")
	}
	return d, nil
}

// check checks what every ceremony needs (WebAuthn §7.1 steps 14–17, §7.2 steps 15–18).
func (d authenticatorData) check(a Address) error {
	hash := sha256.Sum256([]byte(a.RPID))
	switch {
	case !bytes.Equal(d.hostHash, hash[:]):
		return errors.New("the passkey is of another host")
	case d.flags&userPresent == 0:
		return errors.New("the user was not present")
	case d.flags&backedUp != 0 && d.flags&backupEligible == 0:
		return errors.New("the passkey is backed up and may not be")
	}
	return nil
}

func (d authenticatorData) isSynced() bool { return d.flags&backupEligible != 0 }
