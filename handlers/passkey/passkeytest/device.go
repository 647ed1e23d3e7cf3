// Package passkeytest has an authenticator in software, for tests: what it answers can be bent before
// it is sent.
package passkeytest

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
	UserPresent    = 1 << 0
	BackupEligible = 1 << 3
	BackedUp       = 1 << 4
	HasCredential  = 1 << 6
	HasExtensions  = 1 << 7
)

// Device is an authenticator with one passkey, and the browser that it is in.
type Device struct {
	Origin, RPID string
	ID           []byte
	Flags        byte
	Count        uint32

	key       crypto.Signer
	algorithm int
}

// COSE algorithms.
const (
	ES256 = -7
	EdDSA = -8
	RS256 = -257
)

// New returns a device at https://pay.example, with a key of the algorithm.
func New(t testing.TB, algorithm int) *Device {
	t.Helper()
	d := &Device{Origin: "https://pay.example", RPID: "pay.example", ID: []byte("the id of a passkey"), algorithm: algorithm, Flags: UserPresent}
	switch algorithm {
	case ES256:
		d.key = must.Get(ecdsa.GenerateKey(elliptic.P256(), nil))(t)
	case EdDSA:
		_, key, err := ed25519.GenerateKey(nil)
		must.Do(t, err)
		d.key = key
	case RS256:
		d.key = must.Get(rsa.GenerateKey(nil, 2048))(t)
	}
	return d
}

// coseKey is the public key with the members that COSE has for it.
func (d *Device) coseKey() map[int]any {
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

func (d *Device) sign(signed []byte) []byte {
	digest, by := signed, crypto.SignerOpts(crypto.Hash(0))
	if d.algorithm != EdDSA {
		sum := sha256.Sum256(signed)
		digest, by = sum[:], crypto.SHA256
	}
	signature, err := d.key.Sign(nil, digest, by)
	if err != nil {
		panic(err)
	}
	return signature
}

// Answer is the parts of a credential, which a test bends before it is put together.
type Answer struct {
	ID, RawID  []byte
	Type       string
	ClientData map[string]any
	RPID       string
	Flags      byte
	Count      uint32
	COSEKey    map[int]any // of a passkey that was made
	Attested   []byte      // the id within
	Tail       []byte      // of authenticator data
	UserHandle []byte
	Signature  []byte         // in place of the right one
	Extra      map[string]any // members of the credential

	of *Device
}

func (d *Device) answer(ceremony, challenge string) *Answer {
	return &Answer{ID: d.ID, RawID: d.ID, Type: "public-key", RPID: d.RPID, Flags: d.Flags, Count: d.Count, Extra: map[string]any{},
		ClientData: map[string]any{"type": ceremony, "challenge": challenge, "origin": d.Origin, "crossOrigin": false}, of: d}
}

// Made is the answer to options for a passkey that is to be made.
func (d *Device) Made(t testing.TB, options string) *Answer {
	t.Helper()
	a := d.answer("webauthn.create", OptionsOf(t, options).Challenge)
	a.Flags |= HasCredential
	a.COSEKey, a.Attested = d.coseKey(), d.ID
	return a
}

// Used is the answer to options for a passkey that is to be used.
func (d *Device) Used(t testing.TB, options string) *Answer {
	t.Helper()
	return d.answer("webauthn.get", OptionsOf(t, options).Challenge)
}

func (a *Answer) authenticatorData(t testing.TB) []byte {
	t.Helper()
	hash := sha256.Sum256([]byte(a.RPID))
	b := binary.BigEndian.AppendUint32(append(hash[:], a.Flags), a.Count)
	if a.Flags&HasCredential != 0 {
		b = append(b, make([]byte, 16)...)
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(a.Attested))), a.Attested...)
		b = append(b, must.Get(must.Get(cbor.CTAP2EncOptions().EncMode())(t).Marshal(a.COSEKey))(t)...)
	}
	return append(b, a.Tail...)
}

// JSON is the credential as PublicKeyCredential.toJSON() gives it.
func (a *Answer) JSON(t testing.TB) string {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString
	client := must.Get(json.Marshal(a.ClientData))(t)
	data := a.authenticatorData(t)
	response := map[string]any{"clientDataJSON": text(client)}
	if a.ClientData["type"] == "webauthn.create" || a.COSEKey != nil {
		object := must.Get(cbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": data}))(t)
		response["attestationObject"], response["transports"] = text(object), []string{"internal"}
	} else {
		hash := sha256.Sum256(client)
		if a.Signature == nil {
			a.Signature = a.of.sign(append(data, hash[:]...))
		}
		response["authenticatorData"], response["signature"] = text(a.authenticatorData(t)), text(a.Signature)
		if a.UserHandle != nil {
			response["userHandle"] = text(a.UserHandle)
		}
	}
	all := map[string]any{"id": text(a.ID), "rawId": text(a.RawID), "type": a.Type, "response": response, "clientExtensionResults": map[string]any{}, "authenticatorAttachment": "platform"}
	for name, value := range a.Extra {
		all[name] = value
	}
	return string(must.Get(json.Marshal(all))(t))
}

// Options are the members of options for the browser that tests look at.
type Options struct {
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

// OptionsOf reads options for the browser.
func OptionsOf(t testing.TB, text string) (o Options) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(text), &o))
	return o
}
