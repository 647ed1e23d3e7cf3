package passkey_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/big"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"tollhouse/store/storetest/must"
)

// The flags of authenticator data (WebAuthn §6.1).
const (
	userPresent    = 1 << 0
	backupEligible = 1 << 3
	backedUp       = 1 << 4
	hasCredential  = 1 << 6
	hasExtensions  = 1 << 7
)

// device is an authenticator with one passkey, and the browser that it is in.
type device struct {
	origin, rpID string
	id           []byte
	key          crypto.Signer
	algorithm    int
	flags        byte
	count        uint32
	extensions   []byte // of authenticator data
}

const (
	es256 = -7
	edDSA = -8
	rs256 = -257
)

func newDevice(t testing.TB, algorithm int) *device {
	t.Helper()
	d := &device{origin: "https://pay.example", rpID: "pay.example", id: []byte("the id of a passkey"), algorithm: algorithm, flags: userPresent}
	switch algorithm {
	case es256:
		d.key = must.Get(ecdsa.GenerateKey(elliptic.P256(), nil))(t)
	case edDSA:
		_, key, err := ed25519.GenerateKey(nil)
		must.Do(t, err)
		d.key = key
	case rs256:
		d.key = must.Get(rsa.GenerateKey(nil, 2048))(t)
	}
	return d
}

// coseKey is the public key with the members that COSE has for it.
func (d *device) coseKey() map[int]any {
	switch key := d.key.Public().(type) {
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		if err != nil {
			panic(err)
		}
		return map[int]any{1: 2, 3: d.algorithm, -1: 1, -2: point[1:33], -3: point[33:]}
	case ed25519.PublicKey:
		return map[int]any{1: 1, 3: d.algorithm, -1: 6, -2: []byte(key)}
	case *rsa.PublicKey:
		return map[int]any{1: 3, 3: d.algorithm, -1: key.N.Bytes(), -2: big.NewInt(int64(key.E)).Bytes()}
	}
	panic("no such key")
}

func (d *device) sign(signed []byte) []byte {
	digest, by := signed, crypto.SignerOpts(crypto.Hash(0))
	if d.algorithm != edDSA {
		sum := sha256.Sum256(signed)
		digest, by = sum[:], crypto.SHA256
	}
	signature, err := d.key.Sign(nil, digest, by)
	if err != nil {
		panic(err)
	}
	return signature
}

// answer is the parts of a credential, which a test bends before it is put together.
type answer struct {
	id, rawID  []byte
	kind       string // type of the credential
	clientData map[string]any
	rpID       string
	flags      byte
	count      uint32
	coseKey    map[int]any // of a passkey that was made
	attested   []byte      // the id within
	tail       []byte      // of authenticator data
	userHandle []byte
	signature  []byte // in place of the right one
	extra      map[string]any
}

func (d *device) answer(ceremony, challenge string) *answer {
	return &answer{id: d.id, rawID: d.id, kind: "public-key", rpID: d.rpID, flags: d.flags, count: d.count, tail: d.extensions, extra: map[string]any{},
		clientData: map[string]any{"type": ceremony, "challenge": challenge, "origin": d.origin, "crossOrigin": false}}
}

// made is the answer to options of a passkey that is to be made.
func (d *device) made(t testing.TB, options string) *answer {
	t.Helper()
	a := d.answer("webauthn.create", optionsOf(t, options).Challenge)
	a.flags |= hasCredential
	a.coseKey, a.attested = d.coseKey(), d.id
	return a
}

// used is the answer to options of a passkey that is to be used.
func (d *device) used(t testing.TB, options string) *answer {
	t.Helper()
	return d.answer("webauthn.get", optionsOf(t, options).Challenge)
}

func (a *answer) authenticatorData(t testing.TB) []byte {
	t.Helper()
	hash := sha256.Sum256([]byte(a.rpID))
	b := binary.BigEndian.AppendUint32(append(hash[:], a.flags), a.count)
	if a.flags&hasCredential != 0 {
		b = append(b, make([]byte, 16)...)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(a.attested))), a.attested...)
		b = append(b, must.Get(must.Get(cbor.CTAP2EncOptions().EncMode())(t).Marshal(a.coseKey))(t)...)
	}
	return append(b, a.tail...)
}

// json is the credential as PublicKeyCredential.toJSON() gives it.
func (a *answer) json(t testing.TB, d *device) string {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString
	client := must.Get(json.Marshal(a.clientData))(t)
	data := a.authenticatorData(t)
	response := map[string]any{"clientDataJSON": text(client)}
	if a.clientData["type"] == "webauthn.create" || a.coseKey != nil {
		object := must.Get(cbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data}))(t)
		response["attestationObject"], response["transports"] = text(object), []string{"internal"}
	} else {
		hash := sha256.Sum256(client)
		if a.signature == nil {
			a.signature = d.sign(append(data, hash[:]...))
		}
		response["authenticatorData"], response["signature"] = text(a.authenticatorData(t)), text(a.signature)
		if a.userHandle != nil {
			response["userHandle"] = text(a.userHandle)
		}
	}
	all := map[string]any{"id": text(a.id), "rawId": text(a.rawID), "type": a.kind, "response": response, "clientExtensionResults": map[string]any{}, "authenticatorAttachment": "platform"}
	for name, value := range a.extra {
		all[name] = value
	}
	return string(must.Get(json.Marshal(all))(t))
}

// options are the members of options that tests look at.
type options struct {
	Challenge string
	RP        struct{ ID, Name string }
	User      struct{ ID, Name, DisplayName string }
	RPID      string `json:"rpId"`

	PubKeyCredParams []struct {
		Type string
		Alg  int
	}
	Timeout                              int
	ExcludeCredentials, AllowCredentials []struct{ Type, ID string }
	AuthenticatorSelection               struct{ ResidentKey, UserVerification string }
	Attestation, UserVerification        string
}

func optionsOf(t testing.TB, text string) (o options) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(text), &o))
	return o
}
