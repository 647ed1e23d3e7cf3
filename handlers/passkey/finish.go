package passkey

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"tollhouse/store"
	"tollhouse/store/record"
)

// FinishCreate returns the passkey that the browser made, still without a name. The error for a
// wrong answer matches record.ErrMismatch; its text is for the log.
func (a Address) FinishCreate(state State, sent string) (store.Passkey, error) {
	p, err := a.created(state, sent)
	if err != nil {
		return store.Passkey{}, fmt.Errorf("make passkey: %w: %w", record.ErrMismatch, err)
	}
	return p, nil
}

// created follows WebAuthn §7.1. Attestation was not asked for, so its statement is not read:
// whatever it says, the passkey is as good as its first use.
func (a Address) created(state State, sent string) (p store.Passkey, err error) {
	c, challenge, err := begun(state, ceremonyCreate, sent)
	if err != nil {
		return p, err
	}
	if err = a.checkClientData(c.Response.ClientData, ceremonyCreate, challenge); err != nil {
		return p, err
	}
	var made struct {
		AuthenticatorData []byte `cbor:"authData"`
	}
	if err = decoding.Unmarshal(c.Response.AttestationObject, &made); err != nil {
		return p, err
	}
	d, err := parseAuthenticatorData(made.AuthenticatorData)
	if err != nil {
		return p, err
	}
	if err = d.check(a); err != nil {
		return p, err
	}
	if !bytes.Equal(d.id, c.ID) { // also without one
		return p, errors.New("the id is not that of the passkey that was made")
	}
	if _, err = parseKey(d.key); err != nil {
		return p, err
	}
	return store.Passkey{ID: d.id, Key: d.key, Count: d.count, RPID: a.RPID, Synced: d.isSynced()}, nil
}

// FinishUse returns the proof that the browser used one of the user's passkeys, for
// [store.Store.UseFactor]. The proof of a wrong answer has no id, and the error, as
// that of FinishCreate, says why.
func (a Address) FinishUse(state State, u store.User, own []store.Passkey, sent string) (store.PasskeyProof, error) {
	proof, err := a.used(state, u, own, sent)
	if err != nil {
		return store.PasskeyProof{Answered: true}, fmt.Errorf("use passkey: %w: %w", record.ErrMismatch, err)
	}
	return proof, nil
}

// used follows WebAuthn §7.2.
func (a Address) used(state State, u store.User, own []store.Passkey, sent string) (proof store.PasskeyProof, err error) {
	c, challenge, err := begun(state, ceremonyUse, sent)
	if err != nil {
		return proof, err
	}
	here := a.Here(own)
	i := slices.IndexFunc(here, func(p store.Passkey) bool { return bytes.Equal(p.ID, c.ID) })
	if i < 0 {
		return proof, errors.New("the user has no such passkey here")
	}
	p := here[i]
	if handle := c.Response.UserHandle; len(handle) > 0 && !bytes.Equal(handle, handleOf(u)) {
		return proof, errors.New("the passkey names another user")
	}
	if err = a.checkClientData(c.Response.ClientData, ceremonyUse, challenge); err != nil {
		return proof, err
	}
	d, err := parseAuthenticatorData(c.Response.AuthenticatorData)
	if err != nil {
		return proof, err
	}
	if err = d.check(a); err != nil {
		return proof, err
	}
	if d.isSynced() != p.Synced { // WebAuthn §6.1.3: it never changes
		return proof, errors.New("the passkey says otherwise whether it may be backed up")
	}
	key, err := parseKey(p.Key)
	if err != nil {
		return proof, err
	}
	hash := sha256.Sum256(c.Response.ClientData)
	if !verify(key, slices.Concat(c.Response.AuthenticatorData, hash[:]), c.Response.Signature) {
		return proof, errors.New("the signature is wrong")
	}
	return store.PasskeyProof{Answered: true, ID: p.ID, Count: d.count}, nil
}

// begun reads the browser's answer in a ceremony of that kind, and the ceremony's challenge.
func begun(state State, kind, sent string) (c credential, challenge string, err error) {
	challenge, ok := strings.CutPrefix(string(state), kind+" ")
	if !ok || challenge == "" {
		return c, "", errors.New("the ceremony is another")
	}
	c, err = parseCredential(sent)
	return c, challenge, err
}
