package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"tollhouse/store/record"
	"tollhouse/store/storetest"
)

// One authorization as porcupine sees it: a code, and its family. The model of
// model_test.go judges one caller at a time and knows every token. Here 64 callers run at
// the same time, some never learn the outcome, and the model follows every state that is
// possible. Both ask storetest.RefreshState what a refresh gives.

// verb is the operation that was called.
type verb string

const (
	verbAllow         verb = "allow"
	verbRedeem        verb = "redeem"
	verbRefresh       verb = "refresh"
	verbUse           verb = "use"             // of an access token on the API
	verbInspectToken  verb = "inspect access"  // introspection
	verbInspect       verb = "inspect refresh" // introspection
	verbRevoke        verb = "revoke refresh"
	verbRevokeAccess  verb = "revoke access"
	verbRevokeGranted verb = "revoke granted"
	verbEndUser       verb = "end user"
	verbRestart       verb = "restart"
)

// asked is one call. Tokens are numbered from 1, in the order in which they became
// known.
type asked struct {
	verb     verb
	token    int
	ends     int64 // of the token
	stranger bool  // by another client
	proved   bool  // with the right verifier
	now      int64 // the store's clock when the call began
	until    int64 // and when it had returned

	// Of a refresh, filled in by withUses.
	used  tokenSet // tokens that were used before it
	maybe tokenSet // that may have been, or their note was lost in a restart
}

// answer is the outcome of a call.
type answer struct {
	unknown bool  // the caller got no answer
	refusal error // a sentinel of the store
	alive   bool  // of a use or an introspection
	again   bool  // the identical pair of an earlier answer
	refresh int
	access  int
	left    int64 // of the access token's life
	pkce    bool  // of a code
}

func (a asked) String() string {
	text := string(a.verb)
	if a.token != 0 {
		text += fmt.Sprintf(" %d", a.token)
	}
	if a.stranger {
		text += " by a stranger"
	}
	if a.verb == verbRedeem {
		text += fmt.Sprintf(", verifier %t,", a.proved)
	}
	return text + fmt.Sprintf(" at %d..%d", a.now, a.until)
}

func (a answer) String() string {
	switch {
	case a.unknown:
		return "unknown"
	case a.refusal != nil:
		return a.refusal.Error()
	case a.refresh != 0:
		return fmt.Sprintf("pair %d and %d, again %t, %d ms left", a.refresh, a.access, a.again, a.left)
	}
	return fmt.Sprintf("done, alive %t", a.alive)
}

// codeState is the state of a code.
type codeState byte

const (
	codeNone codeState = iota
	codeLives
	codeSpent
	codeGone
)

// authorized is the state of an authorization. Times are in milliseconds. At most two
// of its refresh tokens matter: the unspent one, and the one it replaced. Use of any
// other shows a theft until it ends.
type authorized struct {
	code     codeState
	pkce     bool
	codeEnds int64
	redeemed int64

	revoked bool
	ended   bool // with its user's tokens

	live, parent     int // refresh tokens; live is 0 until a caller has seen it
	access           int // made with live
	made, accessEnds int64
	confirmed        bool // the pair is known to have arrived

	known tokenSet // all tokens that were given
	dead  tokenSet // access tokens that died alone
}

// tokenSet is a set of token numbers that == compares.
type tokenSet string

func (s tokenSet) has(n int) bool { return strings.ContainsRune(string(s), rune(n)) }

func (s tokenSet) with(n int) tokenSet {
	if n == 0 || s.has(n) {
		return s
	}
	all := append([]rune(s), rune(n))
	slices.Sort(all)
	return tokenSet(all)
}

// verdict is the answer by the table.
type verdict struct {
	refusal error
	alive   bool
	fresh   bool // a pair made now
	again   bool // the pair made before
}

// authorizations is the model, one authorization to a history.
func authorizations() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{authorized{}} },
		Step: func(state, input, output any) []any {
			return state.(authorized).step(input.(asked), output.(answer))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v: %v", input, output) },
		DescribeState:     func(state any) string { return fmt.Sprintf("%+v", state) },
	}
	return m.ToModel()
}

// step returns the possible states of the authorization after a call with that answer;
// none if the answer is impossible.
func (s authorized) step(in asked, out answer) (next []any) {
	if out.unknown {
		next = append(next, s) // it never began
	}
	if in.verb == verbRevokeGranted && s.ended {
		// The family was live when the call looked, and is revoked now.
		next = append(next, s.revokedByUser())
	}
	for _, now := range []int64{in.now, in.until} {
		for _, used := range s.pairUsed(in) {
			after, v := s.judge(in, out, now, used)
			if !out.unknown {
				var possible bool
				if after, possible = after.accepts(v, out, now); !possible {
					continue
				}
			}
			if !slices.Contains(next, any(after)) {
				next = append(next, after)
			}
		}
	}
	return next
}

// pairUsed returns what a refresh may find about the use of the pair in question. It
// must find a use that was answered before the refresh began.
func (s authorized) pairUsed(in asked) []bool {
	switch {
	case s.confirmed || in.used.has(s.access) || in.used.has(s.live):
		return []bool{true}
	case in.maybe.has(s.access) || in.maybe.has(s.live):
		return []bool{false, true}
	}
	return []bool{false}
}

// withUses returns a history without its restarts, and each refresh in it with the uses
// that it must find and those that it may find.
func withUses(history []porcupine.Operation) (calls []porcupine.Operation) {
	var uses, restarts []porcupine.Operation
	for _, op := range history {
		switch in := op.Input.(asked); {
		case in.verb == verbRestart:
			restarts = append(restarts, op)
			continue
		case op.Output.(answer).alive && (in.verb == verbUse || in.verb == verbInspectToken || in.verb == verbInspect):
			uses = append(uses, op)
		}
		calls = append(calls, op)
	}
	for i, op := range calls {
		in := op.Input.(asked)
		if in.verb != verbRefresh {
			continue
		}
		for _, use := range uses {
			token := use.Input.(asked).token
			lost := slices.ContainsFunc(restarts, func(r porcupine.Operation) bool { return r.Return > use.Call && r.Call < op.Return })
			if use.Return < op.Call && !lost {
				in.used = in.used.with(token)
			}
			if use.Call < op.Return {
				in.maybe = in.maybe.with(token)
			}
		}
		calls[i].Input = in
	}
	return calls
}

// judge returns the effect of the call on the authorization, and its answer.
func (s authorized) judge(in asked, out answer, now int64, used bool) (authorized, verdict) {
	switch in.verb {
	case verbAllow:
		s.code, s.pkce, s.codeEnds = codeLives, out.pkce, now+lives.Code.Milliseconds()
	case verbRedeem:
		return s.redeem(in, now)
	case verbRefresh:
		return s.refresh(in, now, used)
	case verbUse, verbInspectToken:
		return s, verdict{alive: s.accessLives(in, now) && !in.stranger}
	case verbInspect:
		return s, verdict{alive: s.acts() && in.token == s.live && now < in.ends && !in.stranger}
	case verbRevoke:
		s.revoked = s.revoked || !in.stranger
	case verbRevokeAccess:
		return s.revokeAccess(in, now), verdict{}
	case verbRevokeGranted:
		if !s.ended || s.code == codeLives {
			s = s.revokedByUser()
		}
	case verbEndUser:
		s.ended = s.ended || s.code != codeNone
	}
	return s, verdict{}
}

// acts reports whether the family was neither revoked nor ended.
func (s authorized) acts() bool { return !s.revoked && !s.ended }

func (s authorized) accessLives(in asked, now int64) bool {
	return s.acts() && s.known.has(in.token) && !s.dead.has(in.token) && now < in.ends
}

func (s authorized) redeem(in asked, now int64) (authorized, verdict) {
	switch {
	case s.code != codeLives && s.code != codeSpent:
		return s, verdict{refusal: record.ErrNotFound}
	case in.stranger || in.proved != s.pkce:
		return s, verdict{refusal: record.ErrMismatch}
	case s.code == codeSpent:
		s.revoked = s.revoked || !within(now, s.redeemed, 10*time.Second)
		return s, verdict{refusal: record.ErrReplayed}
	case s.ended:
		return s, verdict{refusal: record.ErrDisabled}
	case now >= s.codeEnds:
		return s, verdict{refusal: record.ErrExpired}
	}
	s.code, s.redeemed = codeSpent, now
	return s.newPair(now), verdict{fresh: true}
}

// refresh applies the answer of the table. A token that is neither the unspent one nor its
// parent was retired, or its successor was rotated too.
func (s authorized) refresh(in asked, now int64, used bool) (authorized, verdict) {
	live, parent := in.token == s.live, in.token == s.parent
	state := storetest.RefreshState{Foreign: in.stranger, Revoked: s.revoked, Ended: s.ended,
		Expired: now >= in.ends, Spent: !live, PairSpent: !parent, PairUsed: used,
		PairAge: time.Duration(now-s.made) * time.Millisecond, PairExpired: now >= s.accessEnds}
	switch again, refusal := state.Judge(lives.RefreshGrace); {
	case refusal != nil:
		s.revoked = s.revoked || errors.Is(refusal, record.ErrReplayed)
		return s, verdict{refusal: refusal}
	case again:
		return s, verdict{again: true}
	case live:
		s.parent = s.live
	default:
		s.dead = s.dead.with(s.access)
	}
	return s.newPair(now), verdict{fresh: true}
}

// newPair replaces the last one. The answer shows who receives it.
func (s authorized) newPair(now int64) authorized {
	s.live, s.access, s.confirmed = 0, 0, false
	s.made, s.accessEnds = now, now+lives.AccessToken.Milliseconds()
	return s
}

// revokeAccess ends one access token. A caller who revokes it has received it.
func (s authorized) revokeAccess(in asked, now int64) authorized {
	if in.stranger || s.revoked || s.dead.has(in.token) || now >= in.ends {
		return s
	}
	s.dead = s.dead.with(in.token)
	s.confirmed = s.confirmed || in.token == s.access
	return s
}

func (s authorized) revokedByUser() authorized {
	switch s.code {
	case codeLives:
		s.code = codeGone
	case codeSpent:
		s.revoked = true
	}
	return s
}

// accepts compares an answer with the verdict, and records the tokens in it. A pair
// whose first answer was lost becomes known with the first one that arrives.
func (s authorized) accepts(v verdict, out answer, now int64) (authorized, bool) {
	if v.refusal != nil || out.refusal != nil {
		return s, errors.Is(out.refusal, v.refusal)
	}
	gives := v.fresh || v.again
	if v.alive != out.alive || v.again != out.again || gives != (out.refresh != 0) {
		return s, false
	}
	if !gives {
		return s, true
	}
	if s.live == 0 && !s.known.has(out.refresh) && !s.known.has(out.access) {
		s.live, s.access = out.refresh, out.access
		s.known = s.known.with(out.refresh).with(out.access)
	}
	return s, out.refresh == s.live && out.access == s.access && now+out.left == s.accessEnds
}

func within(a, b int64, span time.Duration) bool { return max(a-b, b-a) <= span.Milliseconds() }
