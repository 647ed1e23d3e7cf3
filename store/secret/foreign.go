package secret

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"tollhouse/store/snapshot"
)

// Foreign is a password hash that another system made, checked, in the form in which a store
// keeps it. [Hasher.Verify] takes its text.
type Foreign struct {
	// Text is what the user's record keeps. It is empty for a hash that must be wrapped, until
	// [Hasher.Wrap] has done so.
	Text string
	// Kind is how it is counted: bcrypt with its cost, as in bcrypt-12, otherwise the method alone.
	Kind string
	// Wrapped reports whether the text is, or is to be, an Argon2id hash of the old digest.
	Wrapped bool
	// Ours reports whether the text is what [Hasher.Hash] of a server returns: nothing is
	// imported, and nothing is to be replaced.
	Ours bool
	// Needs has the names of --allow that an import needs: digest, and unsalted.
	Needs []string

	hash foreignHash
}

const (
	foreignTextMax = 512 // bytes of a text
	foreignSaltMax = 255 // bytes of a salt
)

// What an import must allow for a hash that is easy to guess.
const (
	needsDigest   = "digest"
	needsUnsalted = "unsalted"
)

// ParseForeign reads a password hash of another system: its text, or an object of its columns.
// The kind is told by the prefix or by the member scheme, never by the shape. The error is a
// clause for whoever wrote the line, and repeats nothing of the hash.
func ParseForeign(v snapshot.Value) (Foreign, error) {
	text, h, err := v.Text(), foreignHash{}, error(nil)
	switch v.Kind() {
	case snapshot.String:
		if strings.HasPrefix(text, wrappedPrefix) {
			return parseWrappedForImport(text)
		}
		h, err = parseForeignText(text)
	case snapshot.Object:
		text = v.String()
		h, err = parseForeignObject(v)
	default:
		return Foreign{}, errors.New("is neither a text nor an object")
	}
	if err == nil && len(text) > foreignTextMax {
		err = errTooLong
	}
	if err == nil {
		err = h.check()
	}
	if err != nil {
		return Foreign{}, err
	}
	f := Foreign{Text: text, Needs: h.needs(), hash: h, Ours: text == h.serverText()}
	if f.Wrapped = !f.Ours && !h.isKept(); f.Wrapped {
		f.Text = ""
	}
	f.Kind = h.countedAs(f.Wrapped)
	return f, nil
}

// parseWrappedForImport takes a wrapped hash that a store of ours exported.
func parseWrappedForImport(text string) (Foreign, error) {
	k, err := parseKept(text)
	if err != nil || len(text) > foreignTextMax {
		return Foreign{}, errors.New("is not a wrapped hash as tollhouse export writes it")
	}
	if k.outer.cost != serverCost {
		return Foreign{}, errors.New("is wrapped with other parameters than those of tollhouse serve")
	}
	return Foreign{Text: text, Kind: k.inner.scheme.kind, Wrapped: true, hash: k.inner}, nil
}

// Wrap gives a hash that is to be wrapped its text: Argon2id of the old digest, behind what is
// wrapped, with its parameters and its salt. Others it returns as they are. It takes a turn.
// Errors: ErrBusy and ctx's.
func (h *Hasher) Wrap(ctx context.Context, c Caller, f Foreign) (Foreign, error) {
	if !f.Wrapped || f.Text != "" {
		return f, nil
	}
	outer := h.newHash()
	rand.Read(outer.salt)
	_, err := h.inTurn(ctx, c, outer.memoryKiB(), func() { outer.key = outer.derive(f.hash.key) })
	if err != nil {
		return Foreign{}, err
	}
	f.Text = wrapped(f.hash, outer)
	return f, nil
}

// MayBe reports whether a record's text may be the hash wrapped: it wraps one of the same method,
// parameters and salt.
func (f Foreign) MayBe(stored string) bool {
	k, err := parseKept(stored)
	of := k.inner
	return err == nil && k.isWrapped && of.scheme == f.hash.scheme && of.cost == f.hash.cost && of.size == f.hash.size && bytes.Equal(of.salt, f.hash.salt)
}

// Shape is what [Foreign.MayBe] compares: the method, its parameters and the salt.
func (f Foreign) Shape() string { return string(f.hash.costOf(true)) + "$" + string(f.hash.salt) }

// Is reports whether a record's text is the hash wrapped. It takes a turn, unless [Foreign.MayBe]
// says no. Errors: ErrBusy and ctx's.
func (h *Hasher) Is(ctx context.Context, c Caller, stored string, f Foreign) (bool, error) {
	if !f.MayBe(stored) {
		return false, nil
	}
	k, err := parseKept(stored)
	if err != nil {
		return false, err
	}
	var key []byte
	_, err = h.inTurn(ctx, c, k.outer.memoryKiB(), func() { key = k.outer.derive(f.hash.key) })
	return err == nil && subtle.ConstantTimeCompare(key, k.outer.key) == 1, err
}

// ForeignSecret is the hash of a client's secret that another system made.
type ForeignSecret struct {
	Hash Hash   // if it is a SHA-256, as ours are
	Text string // otherwise, for [Hasher.Verify]
}

// ParseForeignSecret reads the hash of a client's secret: {"scheme":"sha256","hash"}, bcrypt, or
// PBKDF2 as Django and Ory write it. Nothing is wrapped: a secret was drawn, and its first right use
// ends the hash. Errors as of ParseForeign.
func ParseForeignSecret(v snapshot.Value) (s ForeignSecret, err error) {
	if scheme, _ := v.Member("scheme"); scheme.Text() == "sha256" {
		text, _ := v.Member("hash")
		b, err := hex.DecodeString(text.Text())
		if err != nil || len(b) != len(s.Hash) || len(v.Members()) != 2 {
			return s, errors.New("is not a SHA-256 in hexadecimal, with the members scheme and hash alone")
		}
		s.Hash = Hash(b)
		return s, nil
	}
	text := v.Text()
	taken := slices.ContainsFunc([]string{"$2", "pbkdf2_", "$pbkdf2-sha1$i=", "$pbkdf2-sha256$i=", "$pbkdf2-sha512$i="},
		func(prefix string) bool { return strings.HasPrefix(text, prefix) })
	if v.Kind() != snapshot.String || !taken {
		return s, errors.New("is none of SHA-256, bcrypt, and PBKDF2 as Django and Ory write it")
	}
	h, err := parseForeignText(text)
	if err == nil {
		err = h.check()
	}
	if err != nil {
		return s, err
	}
	return ForeignSecret{Text: text}, nil
}

// CheckSecretHash rejects a text that ParseForeignSecret does not return.
func CheckSecretHash(text string) error {
	s, err := ParseForeignSecret(snapshot.Text(text))
	if err == nil && s.Text != text {
		err = errDamagedHash
	}
	return err
}

// ExportHash returns the hash of a record as an import takes it: a text, or the object that an
// import brought.
func ExportHash(stored string) snapshot.Value {
	if v, err := snapshot.Parse([]byte(stored), 1); err == nil && v.Kind() == snapshot.Object {
		return v
	}
	return snapshot.Text(stored)
}

// kept is a password hash that a record keeps: a hash as it was made, or an Argon2id hash of one.
type kept struct {
	inner     foreignHash
	outer     foreignHash // Argon2id of the inner one's key, if isWrapped
	isWrapped bool
}

// wrappedPrefix begins the text of a wrapped hash:
//
//	$wrapped$symfony-sha512$i=5000$c2FsdA$argon2id$v=19$m=19456,t=2,p=1$SALT$KEY
//
// The method, its parameters and its salt in base64 come first, and then the PHC string of the
// Argon2id hash, whose input is the old digest in binary.
const wrappedPrefix = "$wrapped$"

func wrapped(inner, outer foreignHash) string {
	return wrappedPrefix + inner.scheme.name + "$" + inner.params() + "$" + base64.RawStdEncoding.EncodeToString(inner.salt) + outer.phc()
}

// parseKept reads the hash of a record. Errors: errDamagedHash.
func parseKept(text string) (k kept, err error) {
	rest, isWrapped := strings.CutPrefix(text, wrappedPrefix)
	switch {
	case isWrapped:
		k, err = parseWrapped(rest)
	case strings.HasPrefix(text, "{"):
		var v snapshot.Value
		if v, err = snapshot.Parse([]byte(text), 1); err == nil {
			k.inner, err = parseForeignObject(v)
		}
	default:
		k.inner, err = parseForeignText(text)
	}
	if err == nil {
		err = errors.Join(k.inner.check(), k.outer.check())
	}
	if err != nil {
		return kept{}, errDamagedHash
	}
	return k, nil
}

func parseWrapped(rest string) (k kept, err error) {
	name, rest, _ := strings.Cut(rest, "$")
	params, rest, _ := strings.Cut(rest, "$")
	salt, phc, found := strings.Cut(rest, "$")
	if k.isWrapped = found; !found {
		return k, errDamagedHash
	}
	if k.inner, err = parseCost(name + "$" + params); err == nil {
		k.inner.salt, err = base64.RawStdEncoding.Strict().DecodeString(salt)
	}
	if err == nil {
		k.outer, err = parseArgon2("$" + phc)
	}
	if err == nil && (k.outer.scheme != argon2id || wrapped(k.inner, k.outer) != wrappedPrefix+name+"$"+params+"$"+salt+"$"+phc) {
		err = errDamagedHash
	}
	return k, err
}

// derive returns the key of a password, to be compared with that of the hash.
func (k kept) derive(password string) []byte {
	key := k.inner.derive([]byte(password))
	if k.isWrapped {
		key = k.outer.derive(key)
	}
	return key
}

// key returns the key of the right password.
func (k kept) key() []byte {
	if k.isWrapped {
		return k.outer.key
	}
	return k.inner.key
}

// memoryKiB returns how much memory a check takes.
func (k kept) memoryKiB() uint32 { return max(k.inner.memoryKiB(), k.outer.memoryKiB()) }
