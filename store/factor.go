package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// SecondFactor says who needs a second factor to sign in.
type SecondFactor byte

const (
	FactorOffered   SecondFactor = iota // who has one
	FactorOff                           // nobody
	FactorOperators                     // operators, and who has one
	FactorAll                           // everybody
)

// ErrFactorNeeded refuses to let a user in by the password alone.
var ErrFactorNeeded = errors.New("the user needs a second factor")

var secondFactorNames = []string{FactorOffered: "offered", FactorOff: "off", FactorOperators: "operators", FactorAll: "all"}

func (f SecondFactor) String() string { return secondFactorNames[f] }

// ParseSecondFactor reads what String returns. Errors: *InvalidError.
func ParseSecondFactor(text string) (SecondFactor, error) {
	i := slices.Index(secondFactorNames, text)
	if i < 0 {
		return 0, record.Invalid("second-factor", "use off, offered, operators or all", "unknown mode")
	}
	return SecondFactor(i), nil
}

// factors are the kinds of second factor that a user has. The user's record has them, because each
// request of a browser asks; the record of the second factor has the rest.
type factors byte

const (
	hasApp factors = 1 << iota
	hasPasskey
	factorsEnd
)

// HasFactor reports whether the user has a second factor.
func (u User) HasFactor() bool { return u.factors != 0 }

// HasApp reports whether the user has an authenticator app.
func (u User) HasApp() bool { return u.factors&hasApp != 0 }

// FactorNames returns the kinds of second factor that the user has: totp, passkey.
func (u User) FactorNames() []string {
	names := []string{}
	if u.factors&hasApp != 0 {
		names = append(names, "totp")
	}
	if u.factors&hasPasskey != 0 {
		names = append(names, "passkey")
	}
	return names
}

// FactorRevision rises with every change of the user's second factor. It ends the sign-ins, the codes
// and the forms of before.
func (u User) FactorRevision() uint64 { return u.factorRevision }

// SecondFactor returns who needs a second factor.
func (s *Store) SecondFactor() SecondFactor { return s.policy.Load().SecondFactor }

// NeedsFactor reports whether the user has no sign-in without a second factor.
func (s *Store) NeedsFactor(u User) bool {
	return s.SecondFactor() != FactorOff && u.HasFactor() || s.MustHaveFactor(u)
}

// MustHaveFactor reports whether the user must have a second factor.
func (s *Store) MustHaveFactor(u User) bool {
	f := s.SecondFactor()
	return f == FactorAll || f == FactorOperators && u.Operator
}

func decodeFactors(d *record.Decoder) factors {
	f := factors(d.Byte())
	if f >= factorsEnd {
		d.Fail("has an unknown kind of second factor")
	}
	return f
}

// Bounds of a second factor.
const (
	PasskeysMax      = 10
	RecoveryCodes    = 10
	PasskeyNameMax   = 60 // characters
	passkeyIDSizeMax = 1023
	passkeyKeyMax    = 1024 // bytes; RSA of 4,096 bits takes some 550
)

// Passkey is a WebAuthn credential.
type Passkey struct {
	ID     []byte
	Key    []byte // public, as COSE has it
	Count  uint32 // of signatures; 0 if the authenticator does not count
	Name   string
	RPID   string // the host it was made for
	Synced bool   // it may be copied to other devices
	MadeAt time.Time
	UsedAt time.Time // zero before its first use
}

// Amr is what a sign-in with it counts as.
func (p Passkey) Amr() Amr {
	if p.Synced {
		return AmrSoftwareKey
	}
	return AmrHardwareKey
}

// Factor is the second factor of a user.
type Factor struct {
	Passkeys     []Passkey
	RecoveryLeft int
	App          bool
	// AppOpens is false if another server key sealed the secret of the app: no code can be checked.
	AppOpens bool
}

// factor is the stored form.
type factor struct {
	app      string // sealed; "" without one
	appStep  uint64 // of the code that was taken last
	recovery []secret.Hash
	passkeys []Passkey
	guesses  codeGuesses // of all browsers that are not known
	refused  uint64      // answers of any kind since the last right one
}

// codeGuesses counts wrong codes.
type codeGuesses struct {
	count uint64
	at    time.Time // of the last
}

const (
	guessesFree   = 5
	guessDelayMax = time.Hour
)

// wait returns how long the next code must wait: after five wrong ones 1, 2, 4 … 60 minutes.
func (g codeGuesses) wait(now time.Time) time.Duration {
	if g.count < guessesFree {
		return 0
	}
	delay := min(time.Minute<<min(g.count-guessesFree, 6), guessDelayMax)
	return min(max(delay-now.Sub(g.at), 0), delay) // a clock that was set back does not make it longer
}

func (f factor) kinds() (kinds factors) {
	if f.app != "" {
		kinds |= hasApp
	}
	if len(f.passkeys) > 0 {
		kinds |= hasPasskey
	}
	return kinds
}

// appSecret opens the secret of the user's app, or returns false if it was sealed with another key.
func (s *Store) appSecret(u secret.ID, f factor) (secret.AppSecret, bool) {
	plain, ok := s.key.Open(appLabel(u), f.app)
	if !ok {
		return secret.AppSecret{}, false
	}
	return secret.AppSecretOf(plain)
}

func (s *Store) sealApp(u secret.ID, app secret.AppSecret) string {
	return s.key.Seal(appLabel(u), app.Bytes())
}

// appLabel binds a sealed secret to its user.
func appLabel(u secret.ID) string { return "authenticator app of " + User{ID: u}.Subject() }

// FindFactor returns the second factor of a user, which may be none.
func (s *Store) FindFactor(ctx context.Context, u User) (Factor, error) {
	var f factor
	err := s.db.View(ctx, func(r kv.Reader) (err error) {
		f, err = readFactor(r, u.ID)
		return err
	})
	if err != nil {
		return Factor{}, fmt.Errorf("find second factor: %w", err)
	}
	shown := Factor{Passkeys: f.passkeys, RecoveryLeft: len(f.recovery), App: f.app != ""}
	if shown.App {
		_, shown.AppOpens = s.appSecret(u.ID, f)
	}
	return shown, nil
}

// RecoveryCodesLeft returns how many recovery codes each user has.
func (s *Store) RecoveryCodesLeft(ctx context.Context, users ...User) ([]int, error) {
	var left []int
	err := s.db.View(ctx, func(r kv.Reader) error {
		left = make([]int, len(users))
		var keys [][]byte
		for _, u := range users {
			if u.HasFactor() {
				keys = append(keys, record.FactorKey(u.ID))
			}
		}
		kv.Prefetch(r, keys)
		for i, u := range users {
			if !u.HasFactor() {
				continue
			}
			f, err := readFactor(r, u.ID)
			if err != nil {
				return err
			}
			left[i] = len(f.recovery)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("recovery codes left: %w", err)
	}
	return left, nil
}

// readFactor returns the second factor of a user; the zero factor without one.
func readFactor(r kv.Reader, u secret.ID) (factor, error) {
	f, err := record.Read(r, record.FactorKey(u), u, decodeFactor)
	if errors.Is(err, record.ErrNotFound) {
		return factor{}, nil
	}
	return f, err
}

// writeFactor stores the second factor of a user, or removes it with the last app and passkey.
func writeFactor(tx kv.Txn, u secret.ID, f factor) error {
	if f.kinds() == 0 {
		return tx.Delete(record.FactorKey(u))
	}
	return tx.Set(record.FactorKey(u), encodeFactor(f), time.Time{})
}

const factorRecord = 1

func encodeFactor(f factor) []byte {
	e := record.NewEncoder(factorRecord).Str(f.app).Uint(f.appStep).Uint(f.guesses.count).Time(f.guesses.at).Uint(f.refused).Uint(uint64(len(f.recovery)))
	for _, h := range f.recovery {
		e.Hash(h)
	}
	e.Uint(uint64(len(f.passkeys)))
	for _, p := range f.passkeys {
		e.Str(string(p.ID)).Str(string(p.Key)).Uint(uint64(p.Count)).Str(p.Name).Str(p.RPID).Bool(p.Synced).Time(p.MadeAt).Time(p.UsedAt)
	}
	return e.B
}

func decodeFactor(_ secret.ID, v []byte) (factor, error) {
	d := record.NewDecoder("second factor", factorRecord, v)
	f := factor{app: d.Str(), appStep: d.Uint(), guesses: codeGuesses{d.Uint(), d.Time()}, refused: d.Uint()}
	n := d.Uint()
	if n > RecoveryCodes {
		d.Fail("has more recovery codes than are made")
	}
	for range min(n, RecoveryCodes) {
		f.recovery = append(f.recovery, d.Hash())
	}
	if n = d.Uint(); n > PasskeysMax {
		d.Fail("has more passkeys than a user may have")
	}
	for range min(n, PasskeysMax) {
		p := Passkey{ID: slices.Clone(d.Take(d.Uint())), Key: slices.Clone(d.Take(d.Uint()))}
		count := d.Uint()
		if p.Count = uint32(count); uint64(p.Count) != count {
			d.Fail("has a count out of range")
		}
		p.Name, p.RPID, p.Synced, p.MadeAt, p.UsedAt = d.Str(), d.Str(), d.Bool(), d.Time(), d.Time()
		f.passkeys = append(f.passkeys, p)
	}
	if d.Err == nil && f.kinds() == 0 {
		d.Fail("has neither an app nor a passkey")
	}
	return f, d.Done()
}
