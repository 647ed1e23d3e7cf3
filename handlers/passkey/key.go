package passkey

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"math/big"

	"github.com/fxamacker/cbor/v2"
)

// algorithm is a COSE algorithm (RFC 9053, RFC 8812).
type algorithm int

const (
	es256 algorithm = -7
	edDSA algorithm = -8
	rs256 algorithm = -257
)

// algorithms are offered in this order.
var algorithms = []algorithm{es256, edDSA, rs256}

// coseKey is a public key as authenticators write it (RFC 9052 §7, RFC 9053 §7, RFC 8230 §4). The
// labels -1 to -3 depend on the type.
type coseKey struct {
	Type      int             `cbor:"1,keyasint"`
	Algorithm algorithm       `cbor:"3,keyasint"`
	Minus1    cbor.RawMessage `cbor:"-1,keyasint"` // curve, or modulus
	Minus2    []byte          `cbor:"-2,keyasint"` // x, or exponent
	Minus3    []byte          `cbor:"-3,keyasint"` // y
}

const (
	typeOKP, typeEC2, typeRSA  = 1, 2, 3
	curveP256, curveEd25519    = 1, 6
	coordinateSize             = 32
	rsaBitsMin, rsaBitsMax     = 2048, 4096
	rsaExponentSizeMax         = 4
	rsaExponentMin, rsaExpOver = 3, 1 << 31
)

var errKey = errors.New("the public key is none of ES256, EdDSA and RS256")

// parseKey reads a public key of one of our algorithms.
func parseKey(encoded []byte) (any, error) {
	var k coseKey
	if err := decoding.Unmarshal(encoded, &k); err != nil {
		return nil, err
	}
	switch {
	case k.Algorithm == es256 && k.Type == typeEC2 && k.curve() == curveP256 && len(k.Minus2) == coordinateSize && len(k.Minus3) == coordinateSize:
		point := append(append([]byte{4}, k.Minus2...), k.Minus3...)
		return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	case k.Algorithm == edDSA && k.Type == typeOKP && k.curve() == curveEd25519 && len(k.Minus2) == ed25519.PublicKeySize:
		return ed25519.PublicKey(k.Minus2), nil
	case k.Algorithm == rs256 && k.Type == typeRSA && len(k.Minus2) <= rsaExponentSizeMax:
		var modulus []byte
		if err := decoding.Unmarshal(k.Minus1, &modulus); err != nil {
			return nil, err
		}
		n, e := new(big.Int).SetBytes(modulus), new(big.Int).SetBytes(k.Minus2).Int64()
		if n.BitLen() < rsaBitsMin || n.BitLen() > rsaBitsMax || e < rsaExponentMin || e >= rsaExpOver || e%2 == 0 {
			return nil, errKey
		}
		return &rsa.PublicKey{N: n, E: int(e)}, nil
	}
	return nil, errKey
}

// curve returns the curve, or 0.
func (k coseKey) curve() (curve int) {
	if decoding.Unmarshal(k.Minus1, &curve) != nil {
		return 0
	}
	return curve
}

// verify reports whether signature is that of the key over signed.
func verify(key any, signed, signature []byte) bool {
	sum := sha256.Sum256(signed)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], signature)
	case ed25519.PublicKey:
		return ed25519.Verify(key, signed, signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) == nil
	}
	return false
}
