package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// FactorUse is a user's answer to the question for the second factor.
type FactorUse struct {
	Step    SecondStep   // of a sign-in; or
	Session secret.Token // of a user who is signed in
	// Confirms starts the time of the sign-in again: the password was proved too.
	Confirms bool

	Proof FactorProof
	// Device is the id of a browser that the user has signed in with before, or "".
	Device    string
	Uncounted bool // wrong codes are not counted; only dev
	By        By
	Old       secret.Token // a session that this browser had before
	Reason    string       // of the audit line
}

// FactorProof is a code of an app, a recovery code or a passkey: one of them.
type FactorProof struct {
	Code     string
	Recovery string
	Passkey  PasskeyProof
}

// PasskeyProof is a signature that was verified with the key of a passkey; only what depends on the
// stored record is judged here. Without an id it is one that was refused.
type PasskeyProof struct {
	Answered bool
	ID       []byte
	Count    uint32
}

// SecondStep is a sign-in whose password was right. The browser has it in a sealed cookie.
type SecondStep struct {
	ID                            string // spent by a right answer
	User                          secret.ID
	Generation, AccountGeneration uint64
	Revision                      uint64 // of the second factor
	Ends                          time.Time
}

// secondStepLasts bounds the time between password and second factor.
const secondStepLasts = 10 * time.Minute

// NewSecondStep returns the second step of a user whose password was right.
func (s *Store) NewSecondStep(u User) SecondStep {
	return SecondStep{ID: secret.Text(nil), User: u.ID, Generation: u.Generation, AccountGeneration: u.accountNow.Generation,
		Revision: u.factorRevision, Ends: s.Now().Add(secondStepLasts)}
}

// Reasons of a refused second factor in the audit log.
const (
	WrongAppCode      = "wrong_code"
	UsedAppCode       = "used_code"
	CodeOfAnotherTime = "code_of_another_time"
	WrongRecoveryCode = "wrong_recovery_code"
	PasskeyRefused    = "passkey_refused"
	PasskeyCounter    = "passkey_counter"
	CodeUncheckable   = "key_changed" // another server key sealed the secret of the app
)

// guessing is how many refused second factors in a row are told as an alarm, once.
const guessing = 10

// RefusedFactor is a second factor that is not right. It matches record.ErrMismatch.
type RefusedFactor struct {
	Reason string // one of those above
	InARow uint64 // how many of this user were refused since the last right one

	repeated bool // the code that was just taken, again
}

func (e *RefusedFactor) Error() string { return "second factor refused: " + e.Reason }
func (e *RefusedFactor) Unwrap() error { return record.ErrMismatch }

// EarlyFactor is a code that came too early after wrong ones. It was not looked at.
type EarlyFactor struct{ Wait time.Duration }

func (e *EarlyFactor) Error() string { return "second factor refused: too many wrong codes" }

// UseFactor judges an answer. If it is right, it gives the browser a session under a new id, and what
// was right is spent in the same transaction: the code, the recovery code, the second step. Errors:
// *RefusedFactor, *EarlyFactor; ErrReplayed if the step is spent; ErrDisabled if the user, the sign-in
// or the second factor has changed in the meantime; ErrExpired.
func (s *Store) UseFactor(ctx context.Context, use FactorUse) (secret.Token, Session, error) {
	token, tail, now := secret.New(s.random, secret.SessionToken), secret.NewTail(s.random), s.Now()
	asked, known, err := s.beforeFactor(ctx, use, now)
	if err != nil {
		return secret.Token{}, Session{}, fmt.Errorf("use second factor: %w", err)
	}
	var sn Session
	var refusal error // an outcome, not an error: a wrong code must be counted
	err = s.signIn(ctx, asked, func(tx kv.Txn) error {
		refusal = nil
		u, was, err := s.asksFactor(tx, use, now)
		if err != nil {
			return err
		}
		f, err := readFactor(tx, u.ID)
		if err != nil {
			return err
		}
		amr, err := s.judgeFactor(u.ID, &f, use, now)
		if err != nil {
			if refused := (*RefusedFactor)(nil); !errors.As(err, &refused) {
				return err
			}
			refusal = err
			return writeFactor(tx, u.ID, f)
		}
		sn = s.newSession(u, use.By.Browser, token, now)
		if !was.AuthenticatedAt.IsZero() {
			sn.Browser = was.Browser
			if !use.Confirms {
				sn.AuthenticatedAt, sn.ExpiresAt = was.AuthenticatedAt, was.ExpiresAt
			}
		}
		sn.Amr, sn.FactorAt = amr, now
		line := AuditLine{What: AuditLogin, Reason: use.Reason, By: use.By, UserID: u.Subject(), AccountID: u.Account, Amr: amr}
		return errors.Join(writeFactor(tx, u.ID, f), spendStep(tx, use.Step), endSessions(tx, use.Old, use.Session),
			createSession(tx, sn), appendAudit(tx, line, now, tail))
	})
	known.end(err, refusal)
	if err == nil {
		err = refusal
	}
	if refused, is := errors.AsType[*RefusedFactor](err); is && refused.InARow == guessing {
		s.happened(ctx, HappenedGuessing, asked.Subject())
	}
	if err != nil {
		return secret.Token{}, Session{}, fmt.Errorf("use second factor: %w", err)
	}
	return token, sn, nil
}

// beforeFactor returns the user who answers, and counts a code against a known browser.
func (s *Store) beforeFactor(ctx context.Context, use FactorUse, now time.Time) (u User, known knownTry, err error) {
	err = s.db.View(ctx, func(r kv.Reader) (err error) {
		u, _, err = s.asksFactor(r, use, now)
		return err
	})
	if err == nil && use.Proof.IsCode() && use.Device != "" && !use.Uncounted {
		known, err = s.knownBrowsers.begin(secret.HashOf(fmt.Sprint(use.Device, "\x00", u.Subject(), u.factorRevision, u.password)), now)
	}
	return u, known, err
}

// asksFactor returns the user who answers, with the session of one who is signed in.
func (s *Store) asksFactor(r kv.Reader, use FactorUse, now time.Time) (User, Session, error) {
	if !use.Session.IsZero() {
		sn, err := s.liveSession(r, use.Session)
		return sn.User, sn, err
	}
	u, err := s.stepStands(r, use.Step, now)
	return u, Session{}, err
}

// stepStands returns the user of a second step that may be answered. Errors: ErrReplayed, ErrExpired,
// ErrDisabled.
func (s *Store) stepStands(r kv.Reader, step SecondStep, now time.Time) (User, error) {
	u, err := readUser(r, step.User)
	if err != nil {
		return User{}, goneIsDisabled(err)
	}
	if !u.keeps(step.Generation, step.AccountGeneration) || u.factorRevision != step.Revision {
		return User{}, record.ErrDisabled
	}
	if !now.Before(step.Ends) {
		return User{}, record.ErrExpired
	}
	_, err = r.Get(step.key())
	if err == nil {
		return User{}, record.ErrReplayed
	}
	if !record.IsAbsent(err) {
		return User{}, err
	}
	return u, nil
}

// StepStands returns the user of a second step that may be answered. Errors: those of
// [Store.UseFactor].
func (s *Store) StepStands(ctx context.Context, step SecondStep) (u User, err error) {
	err = s.db.View(ctx, func(r kv.Reader) (err error) {
		u, err = s.stepStands(r, step, s.Now())
		return err
	})
	if err != nil {
		return User{}, fmt.Errorf("second step: %w", err)
	}
	return u, nil
}

func (step SecondStep) key() record.Key {
	return record.DecidedKey(secret.HashOf("second step\x00" + step.ID))
}

// spendStep stores that a step was answered or given up, until it expires; it is kept as a screen that was allowed.
func spendStep(tx kv.Txn, step SecondStep) error {
	if step.ID == "" {
		return nil
	}
	return tx.Set(step.key(), encodeDecided(decided{at: step.Ends.Add(-secondStepLasts), ends: step.Ends, answer: answerAllow}), step.Ends)
}

// EndSecondStep ends a second step that nobody is going to answer.
func (s *Store) EndSecondStep(ctx context.Context, step SecondStep) error {
	err := record.UpdateAs(ctx, s.db, kv.Ending, func(tx kv.Txn) error { return spendStep(tx, step) })
	if err != nil {
		return fmt.Errorf("end second step: %w", err)
	}
	return nil
}

// endSessions ends sessions that a new one replaces.
func endSessions(tx kv.Txn, tokens ...secret.Token) error {
	for _, token := range tokens {
		if token.IsZero() {
			continue
		}
		if err := deleteSession(tx, token.Hash()); err != nil {
			return err
		}
	}
	return nil
}

// IsCode reports whether the answer is a code of an app. Codes alone are few enough to be guessed.
func (p FactorProof) IsCode() bool { return !p.Passkey.Answered && p.Recovery == "" }

// judgeFactor judges an answer and takes it from f, or counts it there.
func (s *Store) judgeFactor(u secret.ID, f *factor, use FactorUse, now time.Time) (Amr, error) {
	amr, reason, repeated := AmrCode, "", false
	switch p := use.Proof; {
	case p.Passkey.Answered:
		amr, reason = f.usePasskey(p.Passkey, now)
	case p.Recovery != "":
		reason = f.useRecovery(p.Recovery)
	default:
		counted := !use.Uncounted && use.Device == ""
		if wait := f.guesses.wait(now); counted && wait > 0 {
			return AmrUnknown, &EarlyFactor{wait}
		}
		reason, repeated = s.useCode(u, f, p.Code, now)
		switch {
		case !counted || repeated:
		case reason == "":
			f.guesses = codeGuesses{}
		default:
			f.guesses = codeGuesses{f.guesses.count + 1, now}
		}
	}
	if reason == "" {
		f.refused = 0
		return amr, nil
	}
	f.refused++
	return AmrUnknown, &RefusedFactor{Reason: reason, InARow: f.refused, repeated: repeated}
}

const (
	// appWindow is how many steps before and after the present one count (RFC 6238 §5.2).
	appWindow = 1
	// appDrift is how far off a clock is looked for, so that the log can say so: ten minutes.
	appDrift = uint64(10 * time.Minute / secret.AppPeriod)
)

// useCode takes the code of an app, which no later one at or before its step follows. It reports
// whether a refused one is the code that was just taken, sent again in the same step.
func (s *Store) useCode(u secret.ID, f *factor, code string, now time.Time) (reason string, repeated bool) {
	if f.app == "" {
		return WrongAppCode, false
	}
	app, opens := s.appSecret(u, *f)
	if !opens {
		return CodeUncheckable, false
	}
	at := secret.AppStep(now)
	last := f.appStep
	if last > at+appWindow { // the clock was wrong then
		last = 0
	}
	step, found := app.FindStep(code, at, appDrift)
	switch {
	case !found:
		return WrongAppCode, false
	case step+appWindow < at || step > at+appWindow:
		return CodeOfAnotherTime, false
	case step <= last:
		return UsedAppCode, step == last && step == at
	}
	f.appStep = step
	return "", false
}

func (f *factor) useRecovery(text string) (reason string) {
	code, ok := secret.ParseRecoveryCode(text)
	if !ok {
		return WrongRecoveryCode
	}
	hash, left := secret.HashOfRecoveryCode(code), f.recovery
	f.recovery = slices.DeleteFunc(slices.Clone(left), hash.Equal)
	if len(f.recovery) == len(left) {
		return WrongRecoveryCode
	}
	return ""
}

func (f *factor) usePasskey(proof PasskeyProof, now time.Time) (amr Amr, reason string) {
	i := slices.IndexFunc(f.passkeys, func(p Passkey) bool { return bytes.Equal(p.ID, proof.ID) })
	if i < 0 {
		return AmrUnknown, PasskeyRefused
	}
	p := &f.passkeys[i]
	// WebAuthn §6.1.1: a count that does not rise may be that of a copy; 0 and 0 do not count.
	if proof.Count <= p.Count && (proof.Count != 0 || p.Count != 0) {
		return AmrUnknown, PasskeyCounter
	}
	p.Count, p.UsedAt = proof.Count, now
	return p.Amr(), ""
}

// endGuesses forgets the wrong codes of a user, whose password is another one.
func endGuesses(tx kv.Txn, u secret.ID) error {
	f, err := readFactor(tx, u)
	if err != nil || f.guesses == (codeGuesses{}) {
		return err
	}
	f.guesses = codeGuesses{}
	return writeFactor(tx, u, f)
}

// knownBrowsers counts wrong codes of browsers that a user has signed in with before. Strangers do not
// know these, so they cannot delay the user there. Each server has its own counts.
type knownBrowsers struct {
	mu     sync.Mutex
	counts *lru.Cache[secret.Hash, codeGuesses]
}

const knownBrowsersMax = 1 << 12

func (k *knownBrowsers) init() {
	counts, err := lru.New[secret.Hash, codeGuesses](knownBrowsersMax)
	if err != nil {
		panic("store: a cache of a fixed size: " + err.Error())
	}
	k.counts = counts
}

// knownTry is a code of a known browser, which counts as wrong until it ends.
type knownTry struct {
	of     *knownBrowsers
	name   secret.Hash
	before codeGuesses
}

// begin counts a code that is to be looked at. Errors: *EarlyFactor.
func (k *knownBrowsers) begin(name secret.Hash, now time.Time) (knownTry, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	g, _ := k.counts.Get(name)
	if wait := g.wait(now); wait > 0 {
		return knownTry{}, &EarlyFactor{wait}
	}
	k.counts.Add(name, codeGuesses{g.count + 1, now})
	return knownTry{k, name, g}, nil
}

// end takes the count back if nothing was judged, and forgets all of it after a right code.
func (t knownTry) end(err, refusal error) {
	if t.of == nil {
		return
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	refused, isRefused := errors.AsType[*RefusedFactor](refusal)
	switch {
	case err != nil || isRefused && refused.repeated:
		g, _ := t.of.counts.Get(t.name)
		g.count -= min(g.count, 1)
		if g.count == t.before.count {
			g.at = t.before.at
		}
		t.of.counts.Add(t.name, g)
	case !isRefused:
		t.of.counts.Remove(t.name)
	}
}
