package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
)

// How the test of linear_test.go records what its callers were answered, and has it
// judged.

// widely records a call that began at a tick and has returned now.
func (d *drill) widely(user, client int, in asked, out answer, call int64) {
	op := porcupine.Operation{Input: in, Call: call, Output: out, Return: d.ticks.Add(1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.outcomes[outcomeOf(in, out)]++
	d.wide = append(d.wide, wideCall{user, client, op})
}

// party is the client of the authorization, or the other one.
func (a *authorization) party(stranger bool) int {
	if stranger {
		return 1 - a.client
	}
	return a.client
}

// callForPair is call for operations that return a pair. The pair is shared with the
// other callers, unless the clock stepped meanwhile: then the end of its access token
// is unknown.
func (d *drill) callForPair(t *testing.T, a *authorization, in asked, act func(*storetest.Fixture) (store.Issued, error)) {
	var issued store.Issued
	in, out := d.call(t, a, in, func(f *storetest.Fixture) (out answer, err error) {
		if issued, err = act(f); err != nil {
			return out, err
		}
		return answer{again: issued.Retried, left: issued.ExpiresIn.Milliseconds(),
			refresh: a.number(issued.RefreshToken), access: a.number(issued.AccessToken)}, nil
	})
	if out.refresh == 0 || in.now != in.until {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.spent[in.token] && !out.again {
		d.replaced.Add(1)
	}
	a.spent[in.token] = true
	if !slices.ContainsFunc(a.refresh, func(h held) bool { return h.number == out.refresh }) {
		made := in.now + out.left - lives.AccessToken.Milliseconds()
		a.refresh = append(a.refresh, held{issued.RefreshToken, out.refresh, made + lives.RefreshToken.Milliseconds()})
		a.access = append(a.access, held{issued.AccessToken, out.access, in.now + out.left})
	}
}

// number returns the number of a token, a new one when it was never seen.
func (a *authorization) number(token secret.Token) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, seen := a.numbers[token.Hash()]
	if !seen {
		n = len(a.numbers) + 1
		a.numbers[token.Hash()] = n
	}
	return n
}

// call makes a call and records it, with its earliest and latest time. A call that the
// store refused to begin is left out: it had no effect.
func (d *drill) call(t *testing.T, a *authorization, in asked, act func(*storetest.Fixture) (answer, error)) (asked, answer) {
	call := d.ticks.Add(1)
	var out answer
	var err error
	d.house.Enter(func(f *storetest.Fixture) {
		in.now = f.Now().UnixMilli()
		out, err = act(f)
		in.until = f.Now().UnixMilli()
	})
	done := d.ticks.Add(1)
	if errors.Is(err, record.ErrUnavailable) {
		return in, answer{}
	}
	if err != nil {
		out = answer{unknown: errors.Is(err, record.ErrUnknownOutcome), refusal: refusalOf(err)}
		if !out.unknown && out.refusal == nil {
			t.Errorf("%s = %v, want a pair or a refusal", in.verb, err)
		}
	}
	d.mu.Lock()
	d.outcomes[outcomeOf(in, out)]++
	d.mu.Unlock()
	a.record(in, out, call, done)
	return in, out
}

func (a *authorization) record(in asked, out answer, call, done int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.history = append(a.history, porcupine.Operation{Input: in, Call: call, Output: out, Return: done})
	if out.refusal != nil && !in.stranger {
		a.refused.Add(1)
	}
}

// refusalOf returns the sentinel in err, or nil.
func refusalOf(err error) error {
	for _, refusal := range []error{record.ErrNotFound, record.ErrMismatch, record.ErrRevoked, record.ErrDisabled, record.ErrReplayed, record.ErrExpired} {
		if errors.Is(err, refusal) {
			return refusal
		}
	}
	return nil
}

// outcomeOf names the outcome of a call.
func outcomeOf(in asked, out answer) string {
	switch {
	case out.unknown:
		return string(in.verb) + ": unknown"
	case out.refusal != nil:
		return string(in.verb) + ": " + out.refusal.Error()
	case out.again:
		return string(in.verb) + ": again"
	case out.alive:
		return string(in.verb) + ": alive"
	}
	return string(in.verb) + ": done"
}

// check judges the authorizations that are no longer used, and forgets them.
func (d *drill) check(t *testing.T) {
	t.Helper()
	kept := d.all[:0]
	since := d.ticks.Load()
	for _, a := range d.all {
		if slices.Contains(d.active, a) {
			kept, since = append(kept, a), min(since, a.history[0].Call)
			continue
		}
		d.judge(t, a)
	}
	d.all = kept
	d.wide = slices.DeleteFunc(d.wide, func(w wideCall) bool { return w.op.Return < since })
}

// finish judges the rest.
func (d *drill) finish(t *testing.T) {
	t.Helper()
	d.active = nil
	d.check(t)
}

func (d *drill) judge(t *testing.T, a *authorization) {
	t.Helper()
	history := slices.Clone(a.history)
	for _, w := range d.wide {
		if w.reaches(a) {
			history = append(history, w.op)
		}
	}
	history = withUses(history)
	began := time.Now()
	result := porcupine.CheckOperationsTimeout(authorizations(), history, drillCheckTime)
	d.slowestCheck = max(d.slowestCheck, time.Since(began))
	if d.judged++; result != porcupine.Ok {
		d.notLinearizable++
		t.Errorf("the history of an authorization is %s, want linearizable:\n%s", result, describe(history))
	}
}

// describe writes a history in the order in which its calls began.
func describe(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var lines strings.Builder
	for _, op := range history {
		fmt.Fprintf(&lines, "%6d to %6d  %v: %v\n", op.Call, op.Return, op.Input, op.Output)
	}
	return lines.String()
}

// covered fails the test unless the callers met every possible answer: a run that never
// loses one proves nothing about lost ones.
func (d *drill) covered(t *testing.T) {
	t.Helper()
	t.Logf("%d unused pairs were replaced; calls by outcome: %v", d.replaced.Load(), d.outcomes)
	for _, want := range []struct {
		in  asked
		out answer
	}{
		{asked{verb: verbRedeem}, answer{}},
		{asked{verb: verbRedeem}, answer{unknown: true}},
		{asked{verb: verbRedeem}, answer{refusal: record.ErrMismatch}},
		{asked{verb: verbRedeem}, answer{refusal: record.ErrReplayed}},
		{asked{verb: verbRefresh}, answer{}},
		{asked{verb: verbRefresh}, answer{again: true}},
		{asked{verb: verbRefresh}, answer{unknown: true}},
		{asked{verb: verbRefresh}, answer{refusal: record.ErrMismatch}},
		{asked{verb: verbRefresh}, answer{refusal: record.ErrRevoked}},
		{asked{verb: verbRefresh}, answer{refusal: record.ErrReplayed}},
		{asked{verb: verbRefresh}, answer{refusal: record.ErrDisabled}},
		{asked{verb: verbUse}, answer{alive: true}},
		{asked{verb: verbUse}, answer{}},
		{asked{verb: verbRevoke}, answer{}},
		{asked{verb: verbRevokeAccess}, answer{}},
		{asked{verb: verbRevokeGranted}, answer{}},
		{asked{verb: verbEndUser}, answer{}},
	} {
		if d.outcomes[outcomeOf(want.in, want.out)] == 0 {
			t.Errorf("no call came to %q", outcomeOf(want.in, want.out))
		}
	}
	if d.replaced.Load() == 0 {
		t.Error("no unused pair was replaced")
	}
}
