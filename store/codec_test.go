package store

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"tollhouse/store/record"
	"tollhouse/store/secret"
)

type storedRecord struct {
	value  []byte
	decode func([]byte) ([]byte, error) // decodes and encodes again
}

// lengthWithoutTail is where a record ends whose last fields are left out when they say nothing: the
// engine's checksum, not the codec, notices that they are gone. It is 0 for other records.
func (r storedRecord) lengthWithoutTail() int {
	for n := range r.value {
		if again, err := r.decode(r.value[:n]); err == nil && bytes.Equal(again, r.value[:n]) {
			return n
		}
	}
	return 0
}

// tailed are the records with fields that are left out when they say nothing.
var tailed = []string{"user with a second factor", "session with a second factor", "code of a sign-in", "family of a sign-in", "audit line of a sign-in"}

// records has one record of each kind that we encode, with its reader.
func records() map[string]storedRecord {
	now := time.UnixMilli(1773070200123).UTC()
	l := lineage{client: "c", clientGeneration: 3, user: secret.NewID(nil), userGeneration: 300, account: "acct_x", accountGeneration: 1 << 47}
	return map[string]storedRecord{
		"account": {encodeAccount(Account{ID: "a", Name: "Larkspur", CreatedAt: now, DisabledAt: now, Generation: 1 << 47, Revision: 300}), func(b []byte) ([]byte, error) {
			v, err := decodeAccount("a", b)
			return encodeAccount(v), err
		}},
		"user": {encodeUser(User{Username: "Bob", Canonical: "bob", Account: "a", Generation: 7, password: "$argon2id$", importedOn: now, DisabledAt: now}), func(b []byte) ([]byte, error) {
			v, err := decodeUser(secret.ID{}, b)
			return encodeUser(v), err
		}},
		"operator": {encodeUser(User{Username: "Bob", Canonical: "bob", Account: "a", Operator: true}), func(b []byte) ([]byte, error) {
			v, err := decodeUser(secret.ID{}, b)
			return encodeUser(v), err
		}},
		"user with a code": {encodeUser(User{Username: "Bob", Canonical: "bob", Account: "a", Revision: 2, lent: true, code: userCode{secret.HashOf("c"), now, 300, true}}), func(b []byte) ([]byte, error) {
			v, err := decodeUser(secret.ID{}, b)
			return encodeUser(v), err
		}},
		"audit line": {encodeAudit(AuditLine{What: AuditLogin, Reason: "r", At: now}), func(b []byte) ([]byte, error) {
			v, err := decodeAudit(record.Position{}, b)
			return encodeAudit(v), err
		}},
		"audit line of an operator": {encodeAudit(AuditLine{What: AuditAdmin, By: By{Actor: Actor{ClientID: "c", ClientName: "Back office", OperatorID: "usr_x"}}, At: now}), func(b []byte) ([]byte, error) {
			v, err := decodeAudit(record.Position{}, b)
			return encodeAudit(v), err
		}},
		"audit line with a number": {encodeAudit(AuditLine{What: AuditRefused, Reason: "unknown", Count: 300, At: now}), func(b []byte) ([]byte, error) {
			v, err := decodeAudit(record.Position{}, b)
			return encodeAudit(v), err
		}},
		"client": {encodeClient(Client{Name: "n", RedirectURIs: []string{"https://a.example/", ""}, Grants: allGrants, Scope: 5, Introspect: true, secrets: []clientSecret{{hash: secret.HashOf("x"), createdAt: now}, {foreign: "$2b$", isShort: true, createdAt: now, lent: true}}}), func(b []byte) ([]byte, error) {
			v, err := decodeClient("", b)
			return encodeClient(v), err
		}},
		"client that acts for an account": {encodeClient(Client{Name: "n", Grants: allGrants, Account: "acct_a"}), func(b []byte) ([]byte, error) {
			v, err := decodeClient("", b)
			return encodeClient(v), err
		}},
		"platform client": {encodeClient(Client{Name: "n", Grants: platformGrants, Scope: ScopePlatform | ScopeData, Platform: true}), func(b []byte) ([]byte, error) {
			v, err := decodeClient("", b)
			return encodeClient(v), err
		}},
		"client that remembers consent": {encodeClient(Client{Name: "n", RedirectURIs: []string{"https://a.example/"}, Grants: allGrants, ConsentEpoch: secret.NewID(nil)}), func(b []byte) ([]byte, error) {
			v, err := decodeClient("", b)
			return encodeClient(v), err
		}},
		"code": {encodeCode(code{lineage: l, redirectURI: "r", scope: 1, challenge: "c", expiresAt: now, usedAt: now, family: secret.NewID(nil)}), func(b []byte) ([]byte, error) {
			v, err := decodeCode(secret.Hash{}, b)
			return encodeCode(v), err
		}},
		"code given without asking": {encodeCode(code{lineage: l, redirectURI: "r", scope: 1, expiresAt: now, remembered: true}), func(b []byte) ([]byte, error) {
			v, err := decodeCode(secret.Hash{}, b)
			return encodeCode(v), err
		}},
		"decided ticket": {encodeDecided(decided{at: now, ends: now, answer: answerAllow, nonce: secret.NewNonce(nil)}), func(b []byte) ([]byte, error) {
			v, err := decodeDecided(struct{}{}, b)
			return encodeDecided(v), err
		}},
		"remembered consent": {encodeRemembered(remembered{lineage: l, epoch: secret.NewID(nil), allowed: []allowed{{secret.HashOf("r"), 1, now}, {secret.HashOf("s"), 7, now}}}), func(b []byte) ([]byte, error) {
			v, err := decodeRemembered("c", b)
			return encodeRemembered(v), err
		}},
		"family": {encodeFamily(family{lineage: l, scope: 2, createdAt: now, expiresAt: now, revokedAt: now, reason: ReasonRefreshReused}), func(b []byte) ([]byte, error) {
			v, err := decodeFamily(secret.ID{}, b)
			return encodeFamily(v), err
		}},
		"imported family": {encodeFamily(family{lineage: l, createdAt: now, expiresAt: now, imported: true}), func(b []byte) ([]byte, error) {
			v, err := decodeFamily(secret.ID{}, b)
			return encodeFamily(v), err
		}},
		"access token": {encodeAccessToken(accessToken{lineage: l, scope: 3, issuedAt: now, expiresAt: now, confirms: secret.HashOf("y")}), func(b []byte) ([]byte, error) {
			v, err := decodeAccessToken(secret.Hash{}, b)
			return encodeAccessToken(v), err
		}},
		"access token of a platform client": {encodeAccessToken(accessToken{lineage: lineage{client: "c"}, scope: ScopePlatform, issuedAt: now, expiresAt: now}), func(b []byte) ([]byte, error) {
			v, err := decodeAccessToken(secret.Hash{}, b)
			return encodeAccessToken(v), err
		}},
		"refresh token": {encodeRefreshToken(refreshToken{family: secret.NewID(nil), scope: 1, expiresAt: now, spentAt: now, nonce: secret.NewNonce(nil), confirmed: true, successor: secret.HashOf("z"), retiredAt: now}), func(b []byte) ([]byte, error) {
			v, err := decodeRefreshToken(secret.Hash{}, b)
			return encodeRefreshToken(v), err
		}},
		"user with a second factor": {encodeUser(User{Username: "Bob", Canonical: "bob", Account: "a", factors: hasApp | hasPasskey, factorRevision: 300}), func(b []byte) ([]byte, error) {
			v, err := decodeUser(secret.ID{}, b)
			return encodeUser(v), err
		}},
		"second factor": {encodeFactor(factor{app: "sealed", appStep: 1 << 40, recovery: []secret.Hash{secret.HashOf("r")}, guesses: codeGuesses{7, now}, refused: 300,
			passkeys: []Passkey{{ID: []byte{1}, Key: []byte{2, 3}, Count: 1 << 31, Name: "n", RPID: "pay.example", Synced: true, MadeAt: now, UsedAt: now}}}), func(b []byte) ([]byte, error) {
			v, err := decodeFactor(secret.ID{}, b)
			return encodeFactor(v), err
		}},
		"session with a second factor": {encodeSession(Session{user: l.user, Browser: "b", ExpiresAt: now, Amr: AmrCode, factorRevision: 300, FactorAt: now}), func(b []byte) ([]byte, error) {
			v, err := decodeSession(secret.Hash{}, b)
			return encodeSession(v), err
		}},
		"code of a sign-in": {encodeCode(code{lineage: l, redirectURI: "r", scope: 1, expiresAt: now, amr: AmrSoftwareKey, factorRevision: 300}), func(b []byte) ([]byte, error) {
			v, err := decodeCode(secret.Hash{}, b)
			return encodeCode(v), err
		}},
		"family of a sign-in": {encodeFamily(family{lineage: l, createdAt: now, expiresAt: now, amr: AmrPassword}), func(b []byte) ([]byte, error) {
			v, err := decodeFamily(secret.ID{}, b)
			return encodeFamily(v), err
		}},
		"audit line of a sign-in": {encodeAudit(AuditLine{What: AuditLogin, At: now, Amr: AmrHardwareKey}), func(b []byte) ([]byte, error) {
			v, err := decodeAudit(record.Position{}, b)
			return encodeAudit(v), err
		}},
		"text of an imported token": {encodeTokenText(tokenText{secret.NewID(nil), secret.HashOf("p")}), func(b []byte) ([]byte, error) {
			v, err := decodeTokenText(struct{}{}, b)
			return encodeTokenText(v), err
		}},
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	for name, r := range records() {
		t.Run(name+"_comes_back_as_it_was", func(t *testing.T) {
			t.Parallel()
			again, err := r.decode(r.value)
			if err != nil || !bytes.Equal(again, r.value) {
				t.Errorf("decode then encode = %x, %v, want %x", again, err, r.value)
			}
		})
		t.Run(name+"_cut_short_or_with_more_behind_is_corrupt_and_never_absent", func(t *testing.T) {
			t.Parallel()
			tail := r.lengthWithoutTail()
			if isTailed := slices.Contains(tailed, name); isTailed != (tail > 0) {
				t.Errorf("the record ends at byte %d too, want that only of %q", tail, tailed)
			}
			for n := range r.value {
				if n > 0 && n == tail {
					continue
				}
				if _, err := r.decode(r.value[:n]); !errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrNotFound) {
					t.Fatalf("decode of %d bytes of %d = %v, want ErrCorrupt", n, len(r.value), err)
				}
			}
			if _, err := r.decode(append(bytes.Clone(r.value), 0)); !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("decode of a byte too many = %v, want ErrCorrupt", err)
			}
			newer := bytes.Clone(r.value)
			newer[0]++
			if _, err := r.decode(newer); !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("decode of another version = %v, want ErrCorrupt", err)
			}
		})
	}
}

// TestADecisionHasAScope: a damaged one would otherwise allow everything.
func TestADecisionHasAScope(t *testing.T) {
	t.Parallel()
	unstated := encodeRemembered(remembered{epoch: secret.NewID(nil), allowed: []allowed{{redirectURI: secret.HashOf("r")}}})
	if _, err := decodeRemembered("c", unstated); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("decodeRemembered(no scope) = %v, want ErrCorrupt", err)
	}
}

// FuzzRecords passes arbitrary bytes to each reader: it refuses them, or its writer
// produces the same bytes.
func FuzzRecords(f *testing.F) {
	for name, r := range records() {
		f.Add(name, r.value)
	}
	all := records()
	f.Fuzz(func(t *testing.T, name string, value []byte) {
		r, known := all[name]
		if !known {
			return
		}
		again, err := r.decode(value)
		if err != nil {
			if !errors.Is(err, record.ErrCorrupt) {
				t.Fatalf("decode = %v, want ErrCorrupt", err)
			}
			return
		}
		if !reflect.DeepEqual(again, value) {
			t.Errorf("%x was taken for a %s, which is written %x", value, name, again)
		}
	})
}
