package secret

import (
	"encoding/base32"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
)

// AppSecretSize is the size of the secret of an authenticator app in bytes (RFC 4226 §4 R6).
const AppSecretSize = 20

// Secrets of other systems have other sizes.
const (
	AppSecretSizeMin = 10
	AppSecretSizeMax = 64
)

// AppPeriod is how long an app shows a code (RFC 6238 §5.2).
const AppPeriod = 30 * time.Second

// appDigits is the length of a code.
const appDigits = otp.DigitsSix

// AppSecret is the secret that an authenticator app shares with the server. It prints redacted.
type AppSecret struct{ token Token }

// NewAppSecret returns a random secret.
func NewAppSecret(from Source) AppSecret {
	var random [AppSecretSize]byte
	from.fill("app", random[:])
	s, _ := AppSecretOf(random[:])
	return s
}

var appText = base32.StdEncoding.WithPadding(base32.NoPadding)

// AppSecretOf returns the secret with those bytes, or false for another size than secrets have.
func AppSecretOf(b []byte) (AppSecret, bool) {
	if len(b) < AppSecretSizeMin || len(b) > AppSecretSizeMax {
		return AppSecret{}, false
	}
	return AppSecret{tokenOf(appText.EncodeToString(b))}, true
}

// ParseAppSecret reads base32, as apps take it: in either case, with or without padding and spaces.
func ParseAppSecret(text string) (AppSecret, bool) {
	text = strings.TrimRight(strings.ToUpper(strings.ReplaceAll(text, " ", "")), "=")
	raw, err := appText.DecodeString(text)
	if err != nil || appText.EncodeToString(raw) != text {
		return AppSecret{}, false
	}
	return AppSecretOf(raw)
}

// Reveal returns the secret in base32 without padding, for the one page that shows it.
func (s AppSecret) Reveal() string { return s.token.Reveal() }

// Bytes returns the secret's bytes, to be sealed.
func (s AppSecret) Bytes() []byte {
	raw, err := appText.DecodeString(s.Reveal())
	if err != nil {
		panic("secret: a secret that was made in base32 is none: " + err.Error())
	}
	return raw
}

// IsZero reports whether s is the zero AppSecret.
func (s AppSecret) IsZero() bool { return s.token.IsZero() }

func (AppSecret) String() string   { return redacted }
func (AppSecret) GoString() string { return redacted }

// AppStep is the number of the period that a time is in.
func AppStep(t time.Time) uint64 { return uint64(max(t.Unix(), 0) / int64(AppPeriod/time.Second)) }

// IsAppCode reports whether text has the form of a code.
func IsAppCode(text string) bool {
	return len(text) == appDigits.Length() && !strings.ContainsFunc(text, func(c rune) bool { return c < '0' || c > '9' })
}

// FindStep returns the step within the window on both sides of the middle whose code this is: the
// one nearest to the middle. It looks at all of them, so that the time tells nothing.
func (s AppSecret) FindStep(code string, middle, window uint64) (step uint64, ok bool) {
	if s.IsZero() || !IsAppCode(code) {
		return 0, false
	}
	for distance := range window + 1 {
		for _, at := range []uint64{middle + distance, middle - distance} {
			if at > middle+window { // before the first step
				continue
			}
			if EqualText(s.code(at), code) && !ok {
				step, ok = at, true
			}
		}
	}
	return step, ok
}

func (s AppSecret) code(step uint64) string {
	code, err := hotp.GenerateCodeCustom(s.Reveal(), step, hotp.ValidateOpts{Digits: appDigits, Algorithm: otp.AlgorithmSHA1})
	if err != nil {
		panic("secret: a secret that was made in base32 is none: " + err.Error())
	}
	return code
}
