package secret

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

var (
	errTooLong    = errors.New("is longer than 512 bytes")
	errUnknown    = errors.New("does not begin as a password hash that is taken")
	errForm       = errors.New("does not have the form that its beginning announces")
	errBcryptKind = errors.New("is a bcrypt hash of another kind than $2a$, $2b$ and $2y$")
	errArgon2Kind = errors.New("is an Argon2 hash of another kind than argon2id and argon2i of version 19, without a key id")
)

// textForm is a kind of text that is told by its prefix, of which it reads the rest.
type textForm struct {
	prefix string
	parse  func(rest string) (foreignHash, error)
}

// djangoArgon2 stands before a PHC string in Django.
const djangoArgon2 = "argon2$"

// textForms are all kinds. Of two that match the longer prefix stands first.
var textForms = []textForm{
	{"$2a$", parseBcrypt},
	{"$2b$", parseBcrypt},
	{"$2y$", parseBcrypt},
	{"$2", refuse(errBcryptKind)},
	{"bcrypt$", parseDjangoBcrypt("bcrypt")},
	{"bcrypt_sha256$", parseDjangoBcrypt("bcrypt-sha256")},
	{"$argon2", func(rest string) (foreignHash, error) { return parseArgon2("$argon2" + rest) }},
	{djangoArgon2, func(rest string) (foreignHash, error) { return parseArgon2("$" + rest) }},
	{"$pbkdf2$", parsePasslibPBKDF2("sha1")},
	{"$pbkdf2-sha1$", parseOryPBKDF2("sha1")},
	{"$pbkdf2-sha256$", parsePBKDF2Text("sha256")},
	{"$pbkdf2-sha512$", parsePBKDF2Text("sha512")},
	{"pbkdf2_sha1$", parseDjangoPBKDF2("sha1")},
	{"pbkdf2_sha256$", parseDjangoPBKDF2("sha256")},
	{"pbkdf2:sha1:", parseWerkzeugPBKDF2("sha1")},
	{"pbkdf2:sha256:", parseWerkzeugPBKDF2("sha256")},
	{"pbkdf2:sha512:", parseWerkzeugPBKDF2("sha512")},
	{"$scrypt$", parseScrypt},
	{"scrypt$", parseDjangoScrypt},
	{"scrypt:", parseWerkzeugScrypt},
	{"$5$", parseCrypt("sha256")},
	{"$6$", parseCrypt("sha512")},
	{"$P$", parsePhpass},
	{"$H$", parsePhpass},
}

func refuse(err error) func(string) (foreignHash, error) {
	return func(string) (foreignHash, error) { return foreignHash{}, err }
}

// parseForeignText reads a text of another system, or one of ours.
func parseForeignText(text string) (foreignHash, error) {
	if len(text) > foreignTextMax {
		return foreignHash{}, errTooLong
	}
	for _, form := range textForms {
		if rest, ok := strings.CutPrefix(text, form.prefix); ok {
			return form.parse(rest)
		}
	}
	if strings.HasPrefix(text, "{") {
		return parseLDAP(text)
	}
	return foreignHash{}, errUnknown
}

// number reads a decimal number without a sign or leading zeros.
func number(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil && strconv.FormatUint(n, 10) == text
}

// fields cuts a text at its dollar signs into n parts.
func fields(text string, n int) ([]string, bool) {
	list := strings.Split(text, "$")
	return list, len(list) == n
}

// decoded returns a hash with that salt and key, which decode reads.
func (h foreignHash) decoded(decode func(string) ([]byte, error), salt []byte, key string) (foreignHash, error) {
	var err error
	if h.key, err = decode(key); err != nil || len(h.key) == 0 {
		return foreignHash{}, errForm
	}
	h.salt, h.size = salt, uint32(len(h.key))
	return h, nil
}

func fromBase64(text string) ([]byte, error) { return base64.StdEncoding.Strict().DecodeString(text) }
func fromRawBase64(text string) ([]byte, error) {
	return base64.RawStdEncoding.Strict().DecodeString(text)
}

// fromPasslib decodes base64 with a full stop in place of the plus sign, and without padding.
func fromPasslib(text string) ([]byte, error) {
	if strings.Contains(text, "+") {
		return nil, errForm
	}
	return fromRawBase64(strings.ReplaceAll(text, ".", "+"))
}

var (
	bcryptBase64 = base64.NewEncoding("./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789").WithPadding(base64.NoPadding)
	bcryptSize   = bcryptBase64.EncodedLen(bcryptSaltSize)
)

// parseBcrypt reads 12$SALT22KEY31. The last character of the salt has four bits that nobody
// reads, and some implementations drew them.
func parseBcrypt(rest string) (h foreignHash, err error) {
	if len(rest) != len("12$")+bcryptSize+bcryptBase64.EncodedLen(bcryptKeySize) || rest[2] != '$' {
		return h, errForm
	}
	cost, ok := number(strings.TrimPrefix(rest[:2], "0"))
	if !ok {
		return h, errForm
	}
	salt, err := bcryptBase64.DecodeString(rest[3 : 3+bcryptSize])
	if err != nil {
		return h, errForm
	}
	h.scheme, h.cost[0] = schemes["bcrypt"], cost
	return h.decoded(bcryptBase64.Strict().DecodeString, salt, rest[3+bcryptSize:])
}

// parseDjangoBcrypt reads a bcrypt hash behind Django's name of the method and a dollar sign.
func parseDjangoBcrypt(name string) func(string) (foreignHash, error) {
	return func(rest string) (foreignHash, error) {
		if len(rest) < 4 || !slices.Contains([]string{"$2a$", "$2b$", "$2y$"}, rest[:4]) {
			return foreignHash{}, errBcryptKind
		}
		h, err := parseBcrypt(rest[4:])
		h.scheme = schemes[name]
		return h, err
	}
}

// parseArgon2 reads the PHC string format, $argon2id$v=19$m=19456,t=2,p=1$SALT$KEY.
func parseArgon2(text string) (h foreignHash, err error) {
	list, ok := fields(text, 6)
	if len(list) < 4 || !ok {
		return h, errArgon2Kind
	}
	if h.scheme = schemes[list[1]]; list[1] != "argon2id" && list[1] != "argon2i" || list[2] != "v=19" {
		return foreignHash{}, errArgon2Kind
	}
	for i, param := range strings.Split(list[3], ",") {
		if i >= len(h.scheme.params) {
			return foreignHash{}, errArgon2Kind
		}
		value, named := strings.CutPrefix(param, h.scheme.params[i]+"=")
		if h.cost[i], ok = number(value); !named || !ok {
			return foreignHash{}, errArgon2Kind
		}
	}
	salt, err := fromRawBase64(list[4])
	if err != nil {
		return foreignHash{}, errForm
	}
	return h.decoded(fromRawBase64, salt, list[5])
}

// parsePBKDF2 reads iterations, a salt and a key.
func parsePBKDF2(digest, iterations string, salt []byte, key string, decode func(string) ([]byte, error)) (h foreignHash, err error) {
	n, ok := number(iterations)
	if !ok || len(salt) == 0 {
		return h, errForm
	}
	h.scheme, h.cost[0] = schemes["pbkdf2-"+digest], n
	return h.decoded(decode, salt, key)
}

// parsePBKDF2Text reads the text of passlib or, if it names its parameters, of Ory.
func parsePBKDF2Text(digest string) func(string) (foreignHash, error) {
	return func(rest string) (foreignHash, error) {
		if strings.HasPrefix(rest, "i=") {
			return parseOryPBKDF2(digest)(rest)
		}
		return parsePasslibPBKDF2(digest)(rest)
	}
}

// parsePasslibPBKDF2 reads 29000$SALT$KEY.
func parsePasslibPBKDF2(digest string) func(string) (foreignHash, error) {
	return func(rest string) (foreignHash, error) {
		list, ok := fields(rest, 3)
		if !ok {
			return foreignHash{}, errForm
		}
		salt, err := fromPasslib(list[1])
		if err != nil {
			return foreignHash{}, errForm
		}
		return parsePBKDF2(digest, list[0], salt, list[2], fromPasslib)
	}
}

// parseOryPBKDF2 reads i=100000,l=32$SALT$KEY, where l is the size of the key.
func parseOryPBKDF2(digest string) func(string) (foreignHash, error) {
	return func(rest string) (foreignHash, error) {
		list, ok := fields(rest, 3)
		if !ok {
			return foreignHash{}, errForm
		}
		params, named := strings.CutPrefix(list[0], "i=")
		iterations, size, _ := strings.Cut(params, ",l=")
		salt, err := fromRawBase64(list[1])
		if err != nil {
			return foreignHash{}, errForm
		}
		h, err := parsePBKDF2(digest, iterations, salt, list[2], fromRawBase64)
		if n, ok := number(size); err == nil && (!named || !ok || n != h.size) {
			return foreignHash{}, errForm
		}
		return h, err
	}
}

// parseDjangoPBKDF2 reads 600000$SALT$KEY, with the salt as it is.
func parseDjangoPBKDF2(digest string) func(string) (foreignHash, error) {
	return func(rest string) (foreignHash, error) {
		list, ok := fields(rest, 3)
		if !ok {
			return foreignHash{}, errForm
		}
		return parsePBKDF2(digest, list[0], []byte(list[1]), list[2], fromBase64)
	}
}

// parseWerkzeugPBKDF2 reads 600000$SALT$KEY, with the salt as it is and the key in hexadecimal.
func parseWerkzeugPBKDF2(digest string) func(string) (foreignHash, error) {
	return func(rest string) (foreignHash, error) {
		list, ok := fields(rest, 3)
		if !ok {
			return foreignHash{}, errForm
		}
		return parsePBKDF2(digest, list[0], []byte(list[1]), list[2], hex.DecodeString)
	}
}

// parseScrypt reads ln=16,r=8,p=1$SALT$KEY, with the logarithm of N.
func parseScrypt(rest string) (h foreignHash, err error) {
	list, ok := fields(rest, 3)
	if !ok {
		return h, errForm
	}
	params := strings.Split(list[0], ",")
	if len(params) != 3 {
		return h, errForm
	}
	for i, name := range []string{"ln=", "r=", "p="} {
		value, named := strings.CutPrefix(params[i], name)
		if h.cost[i], ok = number(value); !named || !ok {
			return h, errForm
		}
	}
	if h.cost[0] >= bits.UintSize/2 {
		return h, errors.New("needs more than 128 MiB")
	}
	h.scheme, h.cost[0] = schemes["scrypt"], 1<<h.cost[0]
	salt, err := fromRawBase64(list[1])
	if err != nil {
		return h, errForm
	}
	return h.decoded(fromRawBase64, salt, list[2])
}

// parseDjangoScrypt reads N$SALT$r$p$KEY, with the salt as it is.
func parseDjangoScrypt(rest string) (foreignHash, error) {
	list, ok := fields(rest, 5)
	if !ok {
		return foreignHash{}, errForm
	}
	return scryptOf([]string{list[0], list[2], list[3]}, list[1], list[4], fromBase64)
}

// parseWerkzeugScrypt reads N:r:p$SALT$KEY, with the salt as it is and the key in hexadecimal.
func parseWerkzeugScrypt(rest string) (foreignHash, error) {
	list, ok := fields(rest, 3)
	if !ok {
		return foreignHash{}, errForm
	}
	return scryptOf(strings.Split(list[0], ":"), list[1], list[2], hex.DecodeString)
}

func scryptOf(params []string, salt, key string, decode func(string) ([]byte, error)) (h foreignHash, err error) {
	if h.scheme = schemes["scrypt"]; len(params) != len(h.cost) || salt == "" {
		return foreignHash{}, errForm
	}
	for i, param := range params {
		var ok bool
		if h.cost[i], ok = number(param); !ok {
			return foreignHash{}, errForm
		}
	}
	return h.decoded(decode, []byte(salt), key)
}

// cryptRoundsUsual are those of a text of SHA-crypt that names none.
const cryptRoundsUsual = 5000

// parseCrypt reads SALT$KEY, perhaps behind rounds=N$.
func parseCrypt(digest string) func(string) (foreignHash, error) {
	return func(rest string) (h foreignHash, err error) {
		h.scheme, h.cost[0] = schemes["crypt-"+digest], cryptRoundsUsual
		if after, named := strings.CutPrefix(rest, "rounds="); named {
			rounds, after, _ := strings.Cut(after, "$")
			var ok bool
			if h.cost[0], ok = number(rounds); !ok {
				return foreignHash{}, errForm
			}
			rest = after
		}
		list, ok := fields(rest, 2)
		if !ok {
			return foreignHash{}, errForm
		}
		key, ok := cryptKey(list[1], int(h.scheme.fixed))
		if !ok {
			return foreignHash{}, errForm
		}
		h.salt, h.key, h.size = []byte(list[0]), key, h.scheme.fixed
		return h, nil
	}
}

const phpassSaltSize = 8

// parsePhpass reads a character for the logarithm of the rounds, a salt and a key.
func parsePhpass(rest string) (h foreignHash, err error) {
	h.scheme = schemes["phpass"]
	key, ok := []byte(nil), false
	if len(rest) > 1+phpassSaltSize {
		key, ok = littleEndian64(rest[1+phpassSaltSize:], int(h.scheme.fixed))
	}
	if !ok {
		return foreignHash{}, errForm
	}
	h.cost[0] = uint32(max(indexOf64(rest[0]), 0)) // no character is below the bound
	h.salt, h.key, h.size = []byte(rest[1:1+phpassSaltSize]), key, h.scheme.fixed
	return h, nil
}

// ldapDigests are the schemes of RFC 2307 and of those that followed it.
var ldapDigests = map[string]string{
	"{SSHA}": "sha1", "{SSHA256}": "sha256", "{SSHA512}": "sha512", "{SMD5}": "md5",
	"{SHA}": "sha1", "{SHA256}": "sha256", "{SHA512}": "sha512", "{MD5}": "md5",
}

// parseLDAP reads {SSHA} and base64 of the digest and the salt. The name of the scheme may have
// any case.
func parseLDAP(text string) (h foreignHash, err error) {
	end := strings.IndexByte(text, '}') + 1
	name := strings.ToUpper(text[:end])
	digest, known := ldapDigests[name]
	if !known {
		return h, errUnknown
	}
	bytes, err := fromBase64(text[end:])
	if h.scheme = schemes["digest-"+digest]; err != nil || len(bytes) < int(h.scheme.fixed) {
		return foreignHash{}, errForm
	}
	h.key, h.salt, h.size = bytes[:h.scheme.fixed], bytes[h.scheme.fixed:], h.scheme.fixed
	if salted := name[1] == 'S' && name[2] != 'H'; salted != (len(h.salt) > 0) {
		return foreignHash{}, errForm
	}
	return h, nil
}
