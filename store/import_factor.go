package store

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/moving"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// importedFactor is the second factor of a line.
type importedFactor struct {
	app      secret.AppSecret
	recovery []secret.Hash
	passkeys []Passkey
}

func (f importedFactor) isZero() bool { return f.app.IsZero() && len(f.passkeys) == 0 }

// readFactor checks the second factor of a line.
func (im *Importer) readFactor(r *moving.User) (f importedFactor, err error) {
	if r.TOTPSecret != nil {
		var ok bool
		if f.app, ok = secret.ParseAppSecret(string(*r.TOTPSecret)); !ok {
			return f, record.Invalid("totp_secret", "only secrets of 6 digits in 30 seconds by SHA-1 can be moved; leave out the others", "totp_secret is not base32 of %d to %d bytes", secret.AppSecretSizeMin, secret.AppSecretSizeMax)
		}
	}
	if len(r.Passkeys) > PasskeysMax {
		return f, record.Invalid("passkeys", "leave out the oldest", "a user has %d passkeys at most; this one has %d", PasskeysMax, len(r.Passkeys))
	}
	for _, p := range r.Passkeys {
		made, err := im.readPasskey(p)
		if err != nil {
			return f, err
		}
		if slices.ContainsFunc(f.passkeys, func(other Passkey) bool { return bytes.Equal(other.ID, made.ID) }) {
			return f, record.Invalid("passkeys", "give each passkey once", "two passkeys have the same id")
		}
		f.passkeys = append(f.passkeys, made)
	}
	if len(r.RecoverySHA256) > RecoveryCodes {
		return f, record.Invalid("recovery_code_sha256", "leave out the others", "a user has %d recovery codes at most; this one has %d", RecoveryCodes, len(r.RecoverySHA256))
	}
	for _, text := range r.RecoverySHA256 {
		raw, err := hex.DecodeString(text)
		var h secret.Hash
		if copy(h[:], raw); err != nil || len(raw) != len(h) {
			return f, record.Invalid("recovery_code_sha256", "give the SHA-256 of each code in hex", "recovery_code_sha256 has an element that is not 64 hex digits")
		}
		if slices.Contains(f.recovery, h) {
			return f, record.Invalid("recovery_code_sha256", "give each code once", "two recovery codes are the same")
		}
		f.recovery = append(f.recovery, h)
	}
	if len(f.recovery) > 0 && f.isZero() {
		return f, record.Invalid("recovery_code_sha256", "give totp_secret or passkeys too, or leave it out", "there are recovery codes without a second factor")
	}
	return f, nil
}

func (im *Importer) readPasskey(p moving.Passkey) (made Passkey, err error) {
	made = Passkey{Count: p.Count, RPID: p.RPID, Name: p.Name, Synced: p.Synced, MadeAt: im.store.Now()}
	var badID, badKey error
	made.ID, badID = base64.RawURLEncoding.Strict().DecodeString(p.ID)
	made.Key, badKey = base64.RawURLEncoding.Strict().DecodeString(p.PublicKey)
	if badID != nil || badKey != nil {
		return made, record.Invalid("passkeys", "give them as the browser does", "id and public_key of a passkey must be base64url without padding")
	}
	if err := CheckPasskey(made); err != nil {
		invalid := record.Invalid("passkeys", "export it again", "%v", err)
		return made, invalid
	}
	return made, nil
}

// writeImportedFactor stores the second factor of a line within tx.
func (im *Importer) writeImportedFactor(tx kv.Txn, u *User, given importedFactor) error {
	if given.isZero() {
		return nil
	}
	f := factor{recovery: given.recovery, passkeys: given.passkeys}
	if !given.app.IsZero() {
		f.app = im.store.sealApp(u.ID, given.app)
	}
	u.factors = f.kinds()
	u.factorRevision++
	return writeFactor(tx, u.ID, f)
}

// describeFactor describes a second factor after the other members of a user.
func describeFactor(app string, f factor, isOpen bool) description {
	codes, keys := make([]string, len(f.recovery)), make([]string, len(f.passkeys))
	for i, h := range f.recovery {
		codes[i] = hex.EncodeToString(h[:])
	}
	for i, p := range f.passkeys {
		keys[i] = fmt.Sprintf("%x %x %d %q %q %t", p.ID, p.Key, p.Count, p.RPID, p.Name, p.Synced)
	}
	return description{{member: "totp_secret", text: app, isOpen: isOpen}, {member: "recovery_code_sha256", text: strings.Join(codes, " "), isOpen: isOpen},
		{member: "passkeys", text: strconv.Itoa(len(keys)) + strings.Join(keys, "\n"), isOpen: isOpen}}
}

// describeStoredFactor describes the second factor that a user has.
func (im *Importer) describeStoredFactor(r kv.Reader, u User) (description, error) {
	f, err := readFactor(r, u.ID)
	if err != nil {
		return nil, err
	}
	app := f.app // of another server key, and so another one
	if secret, ok := im.store.appSecret(u.ID, f); ok && app != "" {
		app = secret.Reveal()
	}
	return describeFactor(app, f, false), nil
}

// exportFactor adds the second factor of a user to their line.
func (s *Store) exportFactor(r kv.Reader, u User, line *moving.User) error {
	if !u.HasFactor() {
		return nil
	}
	f, err := readFactor(r, u.ID)
	if err != nil {
		return err
	}
	if f.app != "" {
		app, ok := s.appSecret(u.ID, f)
		if !ok {
			return &FactorKeyError{User: u.Subject()}
		}
		text := moving.Secret(app.Reveal())
		line.TOTPSecret = &text
	}
	for _, h := range f.recovery {
		line.RecoverySHA256 = append(line.RecoverySHA256, hex.EncodeToString(h[:]))
	}
	for _, p := range f.passkeys {
		line.Passkeys = append(line.Passkeys, moving.Passkey{ID: base64.RawURLEncoding.EncodeToString(p.ID), PublicKey: base64.RawURLEncoding.EncodeToString(p.Key),
			Count: p.Count, RPID: p.RPID, Name: p.Name, Synced: p.Synced})
	}
	return nil
}

// FactorKeyError means that the secret of a user's app was sealed with another server key.
type FactorKeyError struct{ User string }

func (e *FactorKeyError) Error() string {
	return "the authenticator app of " + e.User + " was sealed with another server key: put that key back, or take the second factor away with tollhouse user reset-second-factor"
}
