package secret

import (
	"crypto/md5" // other systems' digests
	"crypto/pbkdf2"
	"crypto/sha1" // other systems' digests
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	//lint:ignore SA1019 bcrypt is made of it, and x/crypto/bcrypt does not return the digest that we wrap.
	"golang.org/x/crypto/blowfish"
	"golang.org/x/crypto/scrypt"
)

// foreignHash is a hash of another system, or an Argon2id hash of ours, in parts.
type foreignHash struct {
	scheme    *scheme
	cost      [3]uint32 // the parameters that scheme.params names
	salt, key []byte
	size      uint32 // of the key
}

// scheme is a way to hash passwords.
type scheme struct {
	name   string   // in the text of a wrapped hash
	kind   string   // that is counted
	params []string // names of the parameters in the text of a wrapped hash, at most three
	sizes  [2]int   // of a key, from and to, which a parameter says; or zero, for a method of one size
	fixed  uint32   // size of the key otherwise
	salt   int      // size of the salt, if the method has one size
	weak   bool     // a digest alone, whatever the parameters

	truncates bool // reads no more than bcryptRead bytes of a password

	check  func(h foreignHash) error // of the bounds
	isKept func(h foreignHash) bool  // about as dear as ours, or dearer
	derive func(h foreignHash, password []byte) []byte
}

// The bounds keep a check below about a second of one processor, and 128 MiB.
const (
	bcryptCostMin, bcryptCostMax = 4, 14
	bcryptCostKept               = 10
	bcryptRead                   = 72 // bytes of a password

	foreignMemoryKiBMax = 128 << 10
	argonWorkKiBMax     = 512 << 10 // memory times passes
	argonWorkKiBKept    = 30 << 10
	foreignLanesMax     = 8

	pbkdf2WorkMax  = 4_000_000 // iterations times blocks; half of it for SHA-512
	scryptWorkMax  = 1 << 20   // N·r·p
	scryptEndsMax  = 1 << 16   // r·p, for which its PBKDF2 at both ends pays 128 bytes each
	scryptSizeKept = 1 << 17   // N·r
	roundsMax      = 100_000
	cryptRoundsMin = 1000 // the description of SHA-crypt raises what is below
	cryptSaltMax   = 16
	phpassLogMin   = 7
	phpassLogMax   = 20
	phpassRead     = 512 // bytes of a password that 2^20 rounds read; with all 1,024 they take two seconds
)

// digests are the hash functions of other systems, and pbkdf2Kept is from how many iterations of
// each PBKDF2 is as dear as ours.
var (
	digests = map[string]func() hash.Hash{
		"md5": md5.New, "sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New,
	}
	pbkdf2Kept = map[string]uint32{"sha1": 200_000, "sha256": 100_000, "sha512": 50_000}
)

// argon2id is the scheme of our own hashes too.
var argon2id = &scheme{name: "argon2id", kind: "argon2id", params: []string{"m", "t", "p"}, sizes: [2]int{12, 64},
	check: checkArgon2, isKept: isArgon2Kept, derive: func(h foreignHash, password []byte) []byte {
		return argon2.IDKey(password, h.salt, h.cost[1], h.cost[0], uint8(h.cost[2]), h.size)
	}}

// schemes has all schemes by name.
var schemes = func() map[string]*scheme {
	argon2i := *argon2id
	argon2i.name, argon2i.kind = "argon2i", "argon2i"
	argon2i.derive = func(h foreignHash, password []byte) []byte {
		return argon2.Key(password, h.salt, h.cost[1], h.cost[0], uint8(h.cost[2]), h.size)
	}
	bcrypt := scheme{name: "bcrypt", kind: "bcrypt", params: []string{"c"}, fixed: bcryptKeySize, truncates: true,
		salt:   bcryptSaltSize,
		check:  func(h foreignHash) error { return within("a cost", h.cost[0], bcryptCostMin, bcryptCostMax) },
		isKept: func(h foreignHash) bool { return h.cost[0] >= bcryptCostKept },
		derive: deriveBcrypt}
	bcryptSHA256 := bcrypt // Django: of the hexadecimal SHA-256
	bcryptSHA256.name, bcryptSHA256.truncates = "bcrypt-sha256", false
	bcryptSHA256.derive = func(h foreignHash, password []byte) []byte {
		sum := sha256.Sum256(password)
		return deriveBcrypt(h, hex.AppendEncode(nil, sum[:]))
	}
	list := []*scheme{argon2id, &argon2i, &bcrypt, &bcryptSHA256,
		{name: "scrypt", kind: "scrypt", params: []string{"n", "r", "p"}, sizes: [2]int{16, 64}, check: checkScrypt,
			isKept: func(h foreignHash) bool { return h.cost[0]*h.cost[1] >= scryptSizeKept }, derive: deriveScrypt},
		{name: "phpass", kind: "phpass", params: []string{"log"}, fixed: md5.Size, salt: phpassSaltSize,
			derive: func(h foreignHash, password []byte) []byte { return derivePhpass(md5.New(), h, password) },
			check: func(h foreignHash) error {
				return within("a logarithm of the rounds", h.cost[0], phpassLogMin, phpassLogMax)
			}},
	}
	for name, of := range digests {
		size := uint32(of().Size())
		weak := name == "md5" || name == "sha1"
		list = append(list,
			&scheme{name: "symfony-" + name, kind: "symfony", params: []string{"i"}, fixed: size, weak: weak,
				check:  func(h foreignHash) error { return within("iterations", h.cost[0], 1, roundsMax) },
				derive: func(h foreignHash, password []byte) []byte { return deriveSymfony(of, h, password) }},
			&scheme{name: "digest-" + name, kind: "digest", fixed: size, weak: true,
				derive: func(h foreignHash, password []byte) []byte { return sumOf(of(), password, h.salt) }},
			&scheme{name: "digest-" + name + "-salt-first", kind: "digest", fixed: size, weak: true,
				derive: func(h foreignHash, password []byte) []byte { return sumOf(of(), h.salt, password) }})
		if name == "md5" {
			continue
		}
		list = append(list, &scheme{name: "pbkdf2-" + name, kind: "pbkdf2-" + name, params: []string{"i"}, sizes: [2]int{16, 64},
			check:  func(h foreignHash) error { return checkPBKDF2(h, size) },
			isKept: func(h foreignHash) bool { return h.cost[0] >= pbkdf2Kept[name] },
			derive: func(h foreignHash, password []byte) []byte { return derivePBKDF2(of, h, password) }})
		if name == "sha1" {
			continue
		}
		list = append(list, &scheme{name: "crypt-" + name, kind: "crypt", params: []string{"rounds"}, fixed: size,
			check:  checkCrypt,
			derive: func(h foreignHash, password []byte) []byte { return deriveCrypt(of, h, password) }})
	}
	byName := map[string]*scheme{}
	for _, s := range list {
		byName[s.name] = s
	}
	return byName
}()

// check reports whether the parts of h are within the bounds of its scheme.
func (h foreignHash) check() error {
	if h.scheme == nil { // of a hash that is not wrapped
		return nil
	}
	from, to := h.scheme.sizes[0], h.scheme.sizes[1]
	switch {
	case len(h.salt) > foreignSaltMax, h.scheme.salt > 0 && len(h.salt) != h.scheme.salt:
		return errors.New("has a salt of a size that is not taken")
	case h.scheme.fixed != 0 && h.size != h.scheme.fixed, h.scheme.fixed == 0 && (int(h.size) < from || int(h.size) > to), h.key != nil && len(h.key) != int(h.size):
		return errors.New("has a key of a size that is not taken")
	case h.scheme.check == nil:
		return nil
	}
	return h.scheme.check(h)
}

// isKept reports whether a hash is kept as it is, and not wrapped.
func (h foreignHash) isKept() bool { return h.scheme.isKept != nil && h.scheme.isKept(h) }

// needs returns what an import of the hash must allow. A digest of one round takes some
// nanoseconds to guess, and one without a salt is in tables.
func (h foreignHash) needs() (names []string) {
	if !h.scheme.weak && (h.scheme.kind != "symfony" || h.cost[0] > 1) {
		return nil
	}
	if names = append(names, needsDigest); len(h.salt) == 0 {
		names = append(names, needsUnsalted)
	}
	return names
}

func (h foreignHash) derive(password []byte) []byte { return h.scheme.derive(h, password) }

// memoryKiB returns how much memory a check takes.
func (h foreignHash) memoryKiB() uint32 {
	switch {
	case h.scheme == nil:
		return 0
	case strings.HasPrefix(h.scheme.name, "argon2"):
		return h.cost[0]
	case h.scheme.name == "scrypt":
		return (h.cost[0] + h.cost[2]) * h.cost[1] / 8
	}
	return 0
}

// params returns the parameters as the text of a wrapped hash has them: "m=1024,t=1,p=1,l=32".
func (h foreignHash) params() string {
	var list []string
	for i, name := range h.scheme.params {
		list = append(list, name+"="+strconv.FormatUint(uint64(h.cost[i]), 10))
	}
	if h.scheme.fixed == 0 {
		list = append(list, "l="+strconv.FormatUint(uint64(h.size), 10))
	}
	return strings.Join(list, ",")
}

// parseCost reads the name of a scheme, a dollar sign and parameters.
func parseCost(text string) (h foreignHash, err error) {
	name, params, _ := strings.Cut(text, "$")
	if h.scheme = schemes[name]; h.scheme == nil {
		return h, errDamagedHash
	}
	h.size = h.scheme.fixed
	var list []string
	if params != "" {
		list = strings.Split(params, ",")
	}
	for i, param := range list {
		name, value, _ := strings.Cut(param, "=")
		n, ok := number(value)
		switch {
		case !ok:
			return h, errDamagedHash
		case i < len(h.scheme.params) && name == h.scheme.params[i]:
			h.cost[i] = n
		case i == len(h.scheme.params) && name == "l" && h.scheme.fixed == 0:
			h.size = n
		default:
			return h, errDamagedHash
		}
	}
	if h.params() != params {
		return h, errDamagedHash
	}
	return h, nil
}

// phc returns an Argon2 hash in the PHC string format.
func (h foreignHash) phc() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$%s$v=%d$m=%d,t=%d,p=%d$%s$%s", h.scheme.name, argon2.Version, h.cost[0], h.cost[1], h.cost[2],
		b64.EncodeToString(h.salt), b64.EncodeToString(h.key))
}

// serverText returns the text of a hash that a server of ours made, or "".
func (h foreignHash) serverText() string {
	if h.scheme != argon2id || h.cost != serverCost || h.size != argonKeySize {
		return ""
	}
	return h.phc()
}

func within(what string, n uint32, from, to uint32) error {
	if n < from || n > to {
		return fmt.Errorf("has %s outside %d to %d", what, from, to)
	}
	return nil
}

func checkArgon2(h foreignHash) error {
	memory, passes, lanes := h.cost[0], h.cost[1], h.cost[2]
	switch {
	case len(h.salt) < 8 || len(h.salt) > 64:
		return errors.New("has a salt outside 8 to 64 bytes")
	case lanes < 1 || lanes > foreignLanesMax:
		return within("parallelism", lanes, 1, foreignLanesMax)
	case memory < argonMemoryKiBMin*lanes || memory > foreignMemoryKiBMax:
		return errors.New("has a memory cost outside 8 KiB a lane to 128 MiB")
	case passes < 1 || uint64(passes)*uint64(memory) > argonWorkKiBMax:
		return errors.New("has passes times memory outside 512 MiB")
	}
	return nil
}

func isArgon2Kept(h foreignHash) bool { return h.cost[0]*h.cost[1] >= argonWorkKiBKept }

func checkPBKDF2(h foreignHash, digest uint32) error {
	most := uint64(pbkdf2WorkMax)
	if digest == sha512.Size {
		most /= 2
	}
	blocks := (h.size + digest - 1) / digest
	if h.cost[0] < 1 || uint64(h.cost[0])*uint64(blocks) > most {
		return fmt.Errorf("has iterations outside 1 to %d for each block of its key", most)
	}
	return nil
}

func checkScrypt(h foreignHash) error {
	n, r, p := uint64(h.cost[0]), uint64(h.cost[1]), uint64(h.cost[2])
	switch {
	case n < 2 || n&(n-1) != 0:
		return errors.New("has an N that is no power of two")
	case r < 1 || p < 1:
		return errors.New("has an r or p below 1")
	case n*r > foreignMemoryKiBMax*8: // 128·N·r bytes
		return errors.New("needs more than 128 MiB")
	case n*r*p > scryptWorkMax:
		return fmt.Errorf("has N·r·p above %d", scryptWorkMax)
	case r*p > scryptEndsMax:
		return fmt.Errorf("has r·p above %d", scryptEndsMax)
	}
	return nil
}

func checkCrypt(h foreignHash) error {
	if len(h.salt) < 1 || len(h.salt) > cryptSaltMax {
		return errors.New("has a salt outside 1 to 16 bytes")
	}
	return within("rounds", h.cost[0], cryptRoundsMin, roundsMax)
}

const (
	bcryptSaltSize = 16
	bcryptKeySize  = 23 // of 24 bytes that are computed
)

// deriveBcrypt is the function of Provos and Mazières, with the NUL at the end of the password
// that all implementations have.
func deriveBcrypt(h foreignHash, password []byte) []byte {
	key := append(slices.Clip(password), 0)
	c, err := blowfish.NewSaltedCipher(key, h.salt)
	if err != nil {
		panic("secret: bcrypt: " + err.Error()) // only for an empty key
	}
	for range uint64(1) << h.cost[0] {
		blowfish.ExpandKey(key, c)
		blowfish.ExpandKey(h.salt, c)
	}
	text := []byte("OrpheanBeholderScryDoubt")
	for i := 0; i < len(text); i += blowfish.BlockSize {
		for range 64 {
			c.Encrypt(text[i:], text[i:])
		}
	}
	return text[:bcryptKeySize]
}

func derivePBKDF2(of func() hash.Hash, h foreignHash, password []byte) []byte {
	key, err := pbkdf2.Key(of, string(password), h.salt, int(h.cost[0]), int(h.size))
	if err != nil {
		panic("secret: pbkdf2: " + err.Error()) // only for a size that check refuses
	}
	return key
}

func deriveScrypt(h foreignHash, password []byte) []byte {
	key, err := scrypt.Key(password, h.salt, int(h.cost[0]), int(h.cost[1]), int(h.cost[2]), int(h.size))
	if err != nil {
		panic("secret: scrypt: " + err.Error()) // only for parameters that check refuses
	}
	return key
}

// deriveSymfony is the MessageDigestPasswordHasher of Symfony, which FOSUserBundle uses.
func deriveSymfony(of func() hash.Hash, h foreignHash, password []byte) []byte {
	salted := slices.Clone(password)
	if len(h.salt) > 0 {
		salted = append(append(append(salted, '{'), h.salt...), '}')
	}
	d := of()
	sum := sumOf(d, salted)
	for range h.cost[0] - 1 {
		sum = sumOf(d, sum, salted)
	}
	return sum
}

// derivePhpass is the portable hash of phpass, whose d is MD5. With the most rounds a password longer
// than phpassRead is never right: they read only its beginning, and the first digest all of it.
func derivePhpass(d hash.Hash, h foreignHash, password []byte) []byte {
	sum := sumOf(d, h.salt, password)
	if h.cost[0] == phpassLogMax {
		password = password[:min(len(password), phpassRead)]
	}
	for range uint32(1) << h.cost[0] {
		sum = sumOf(d, sum, password)
	}
	return sum
}

// sumOf returns the digest of the parts, one after another.
func sumOf(d hash.Hash, parts ...[]byte) []byte {
	d.Reset()
	for _, part := range parts {
		d.Write(part)
	}
	return d.Sum(nil)
}
