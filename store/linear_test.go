package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const (
	drillUsers     = 6
	drillFamilies  = 48                        // authorizations in use at once
	drillAge       = 4                         // rounds, after which another takes an authorization's place
	drillBored     = 10                        // refusals of the owner, after which another does too
	drillRoundOps  = 1000                      // calls in a round
	drillKilled    = 24                        // updates with an unknown outcome, at each crash
	drillFresh     = 12                        // codes that nobody has used then, so that some of these updates redeem one
	drillRounds    = 16_000 / drillRoundOps    // and in the long form
	drillRoundsMax = 1_000_000 / drillRoundOps // a million calls
	drillCheckTime = time.Minute               // for one authorization; a few milliseconds are usual
)

// TestParallelHistories has 64 callers use codes and tokens, honestly or not, over
// Badger on disk, while the clock steps and the store is closed and killed beneath
// them. Their answers must be those that the table of docs/internals/decisions.md gives for some
// order of the calls, in which no call comes before one that had returned when it
// began.
func TestParallelHistories(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	d := newDrill(t)
	round := 0
	for ; must.More(round, drillRounds, drillRoundsMax) && !t.Failed(); round++ {
		d.round(t, round)
		d.check(t)
	}
	d.finish(t)
	must.Figure(t, "operations", round*drillRoundOps)
	must.Figure(t, "callers", callersMax)
	must.Figure(t, "authorizations", d.judged)
	must.Figure(t, "not_linearizable", d.notLinearizable)
	must.Figure(t, "slowest_check_ms", d.slowestCheck.Milliseconds())
	d.covered(t)
}

// drill is the run: the store, and the authorizations that the callers know.
type drill struct {
	seed     uint64 // the calls are drawn from it; their order is the scheduler's
	house    *storetest.House
	clients  [2]store.Client
	users    []string
	ticks    atomic.Int64 // orders calls and returns
	calls    atomic.Int64
	replaced atomic.Int64 // pairs issued in place of an unused one

	mu       sync.Mutex
	all      []*authorization // to be checked
	active   []*authorization
	opening  int
	fresh    []*authorization // to be in use from the middle call on
	wide     []wideCall       // calls that reach more than one authorization
	outcomes map[string]int

	// Of the checks, which one goroutine makes.
	judged, notLinearizable int
	slowestCheck            time.Duration
}

// authorization is a code and its family, as the callers share it.
type authorization struct {
	user, client int
	since        int // round
	code         secret.Token
	pkce         bool
	redeeming    atomic.Bool
	refused      atomic.Int64

	mu      sync.Mutex
	numbers map[secret.Hash]int
	refresh []held
	access  []held
	spent   map[int]bool // refresh tokens that were answered with a pair
	history []porcupine.Operation
}

// held is a token that a caller received.
type held struct {
	token  secret.Token
	number int
	ends   int64
}

// wideCall is a call on everything that a user granted, or granted to a client.
type wideCall struct {
	user, client int // -1 for every one
	op           porcupine.Operation
}

func (w wideCall) reaches(a *authorization) bool {
	return (w.user < 0 || w.user == a.user) && (w.client < 0 || w.client == a.client) && w.op.Return >= a.history[0].Call
}

func newDrill(t *testing.T) *drill {
	t.Helper()
	d := &drill{house: storetest.NewHouse(t), outcomes: map[string]int{}}
	if must.Long() {
		d.seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", d.seed)
	d.house.Enter(func(f *storetest.Fixture) {
		for i := range d.clients {
			d.clients[i], _ = f.Client(t)
		}
		for i := range drillUsers {
			d.users = append(d.users, f.User(t, fmt.Sprintf("mara%d", i), "acct_larkspur").Username)
		}
	})
	return d
}

// round runs the callers. Halfway the clock steps and the store goes down; at the end,
// between calls, the clock steps again.
func (d *drill) round(t *testing.T, round int) {
	t.Helper()
	rng := d.drawn(round, callersMax)
	d.retire(round)
	d.enableUsers(t)
	for range drillFresh {
		d.fresh = append(d.fresh, d.allow(t, rng, round)...)
	}
	d.calls.Store(drillRoundOps)
	half, gone := make(chan (<-chan struct{}), 1), make(chan struct{})
	var callers sync.WaitGroup
	for n := range callersMax {
		callers.Go(func() { d.caller(t, d.drawn(round, n), round, half) })
	}
	go func() { callers.Wait(); close(gone) }()
	unanswered := <-half
	d.house.Clock.Advance(clockStep(rng))
	call := d.ticks.Add(1)
	if crashes(round) {
		select {
		case <-unanswered:
		case <-gone:
		}
		d.house.Crash(t)
	} else {
		d.house.Restart(t)
	}
	d.widely(-1, -1, asked{verb: verbRestart}, answer{}, call)
	<-gone
	d.house.Clock.Advance(clockStep(rng))
}

// drawn is what one caller draws in a round.
func (d *drill) drawn(round, caller int) *rand.Rand {
	return rand.New(rand.NewPCG(d.seed+uint64(round), uint64(caller)))
}

func crashes(round int) bool { return round%2 == 0 }

// clockStep is how far a clock goes at once; now and then it is set back.
func clockStep(rng *rand.Rand) time.Duration {
	late := lives.RefreshGrace + tick
	steps := []time.Duration{0, time.Second, lives.RefreshGrace / 2, lives.RefreshGrace, late, late, late, late,
		lives.Code, lives.AccessToken, -time.Second, lives.RefreshToken}
	return steps[rng.IntN(len(steps))]
}

// retire takes old authorizations out of use.
func (d *drill) retire(round int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active = slices.DeleteFunc(d.active, func(a *authorization) bool { return round-a.since >= drillAge })
}

// enableUsers repairs what a crash between the two halves of endUser left.
func (d *drill) enableUsers(t *testing.T) {
	t.Helper()
	d.house.Enter(func(f *storetest.Fixture) {
		for _, name := range d.users {
			must.Get(f.EnableUser(context.Background(), name))(t)
		}
	})
}

// caller makes calls until the round has had its number. Who makes the middle one takes
// the answers of the next Updates away before a crash, lest the others be done by then.
func (d *drill) caller(t *testing.T, rng *rand.Rand, round int, half chan<- <-chan struct{}) {
	for {
		left := d.calls.Add(-1)
		if left < 0 {
			return
		}
		if left == drillRoundOps/2 {
			var unanswered <-chan struct{}
			d.admit(d.fresh)
			d.fresh = nil
			if crashes(round) {
				unanswered = d.house.LoseAnswers(drillKilled)
			}
			half <- unanswered
		}
		if a := d.pick(rng); a != nil {
			d.act(t, rng, a)
			continue
		}
		d.admit(d.allow(t, rng, round))
		d.mu.Lock()
		d.opening--
		d.mu.Unlock()
	}
}

// pick returns an authorization to call about, or nil if another may be created.
func (d *drill) pick(rng *rand.Rand) *authorization {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.active)+d.opening < drillFamilies || len(d.active) == 0 {
		d.opening++
		return nil
	}
	i := rng.IntN(len(d.active))
	a := d.active[i]
	if a.refused.Load() >= drillBored {
		d.active = slices.Delete(d.active, i, i+1)
	}
	return a
}

// admit takes authorizations into use.
func (d *drill) admit(list []*authorization) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.active, d.all = append(d.active, list...), append(d.all, list...)
}

// allow creates an authorization, or none: a code that no client received belongs to none.
func (d *drill) allow(t *testing.T, rng *rand.Rand, round int) []*authorization {
	a := &authorization{user: rng.IntN(drillUsers), client: rng.IntN(len(d.clients)), since: round, pkce: rng.IntN(2) == 0,
		numbers: map[secret.Hash]int{}, spent: map[int]bool{}}
	d.call(t, a, asked{verb: verbAllow}, func(f *storetest.Fixture) (out answer, err error) {
		u, err := f.FindUser(context.Background(), d.users[a.user])
		if err != nil {
			return out, err
		}
		consent := store.Consent{Client: d.clients[a.client], User: u, RedirectURI: storetest.CallbackURI,
			Ticket: secret.Text(nil), TicketEnds: f.Now().Add(lives.Ticket)}
		if a.pkce {
			consent.Challenge = challenge
		}
		a.code, err = f.Allow(context.Background(), consent)
		return answer{pkce: a.pkce}, err
	})
	if len(a.history) != 1 || a.history[0].Output != (answer{pkce: a.pkce}) {
		return nil
	}
	return []*authorization{a}
}

// act makes one call about an authorization: mostly what its client would do, and
// sometimes what a thief, another client or a confused one would.
func (d *drill) act(t *testing.T, rng *rand.Rand, a *authorization) {
	refresh, previous, access, other := a.choose(rng)
	dice := rng.IntN(1000)
	switch {
	case refresh.number == 0 && !a.redeeming.Swap(true):
		d.redeem(t, a, false, a.pkce)
	case refresh.number == 0 && dice >= 950:
		d.redeem(t, a, false, !a.pkce)
	case dice < 3:
		d.endUser(t, a)
	case dice < 8:
		d.revokeGranted(t, a)
	case dice < 12:
		d.redeem(t, a, false, a.pkce)
	case dice < 40:
		d.redeem(t, a, true, a.pkce)
	case refresh.number == 0: // no caller knows a token yet
		a.refused.Add(1)
	case dice < 44:
		d.revoke(t, a, verbRevoke, refresh, false)
	case dice < 64:
		d.revoke(t, a, verbRevoke, refresh, true)
	case dice < 80:
		d.revoke(t, a, verbRevokeAccess, access, false)
	case dice < 100:
		d.revoke(t, a, verbRevokeAccess, access, true)
	case dice < 160:
		d.rotate(t, a, refresh, true)
	case dice < 480:
		d.rotate(t, a, refresh, false)
	case dice < 580:
		d.rotate(t, a, previous, false)
	case dice < 590:
		d.rotate(t, a, other, false)
	case dice < 680:
		d.inspect(t, a, verbInspect, refresh, rng.IntN(5) == 0)
	case dice < 740:
		d.inspect(t, a, verbInspect, other, false)
	case dice < 820:
		d.inspect(t, a, verbInspectToken, access, rng.IntN(5) == 0)
	default:
		d.use(t, a, access)
	}
}

// choose returns the newest refresh token, the one before it, an access token,
// mostly the newest, and any refresh token at all.
func (a *authorization) choose(rng *rand.Rand) (newest, previous, access, other held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.refresh)
	if n == 0 {
		return held{}, held{}, held{}, held{}
	}
	newest, previous, access, other = a.refresh[n-1], a.refresh[max(n-2, 0)], a.access[n-1], a.refresh[rng.IntN(n)]
	if rng.IntN(4) == 0 {
		access = a.access[rng.IntN(n)]
	}
	return newest, previous, access, other
}

func (d *drill) redeem(t *testing.T, a *authorization, stranger, proved bool) {
	r := store.Redemption{Client: d.clients[a.party(stranger)], Code: a.code, RedirectURI: storetest.CallbackURI}
	if proved {
		r.Verifier = verifier
	}
	d.callForPair(t, a, asked{verb: verbRedeem, stranger: stranger, proved: proved}, func(f *storetest.Fixture) (store.Issued, error) {
		return f.RedeemCode(context.Background(), r)
	})
}

func (d *drill) rotate(t *testing.T, a *authorization, of held, stranger bool) {
	r := store.Refresh{Client: d.clients[a.party(stranger)], Token: of.token}
	d.callForPair(t, a, asked{verb: verbRefresh, token: of.number, ends: of.ends, stranger: stranger}, func(f *storetest.Fixture) (store.Issued, error) {
		return f.RotateRefresh(context.Background(), r)
	})
}

func (d *drill) use(t *testing.T, a *authorization, of held) {
	d.call(t, a, asked{verb: verbUse, token: of.number, ends: of.ends}, func(f *storetest.Fixture) (answer, error) {
		_, err := f.FindPrincipal(context.Background(), of.token)
		return alive(err)
	})
}

func (d *drill) inspect(t *testing.T, a *authorization, v verb, of held, stranger bool) {
	d.call(t, a, asked{verb: v, token: of.number, ends: of.ends, stranger: stranger}, func(f *storetest.Fixture) (answer, error) {
		_, err := f.Introspect(context.Background(), d.clients[a.party(stranger)], of.token.Reveal())
		return alive(err)
	})
}

// alive reads whether a token is live from the answer to a check.
func alive(err error) (answer, error) {
	if errors.Is(err, record.ErrNotFound) {
		return answer{}, nil
	}
	return answer{alive: err == nil}, err
}

func (d *drill) revoke(t *testing.T, a *authorization, v verb, of held, stranger bool) {
	d.call(t, a, asked{verb: v, token: of.number, ends: of.ends, stranger: stranger}, func(f *storetest.Fixture) (answer, error) {
		return answer{}, f.RevokeToken(context.Background(), store.By{}, d.clients[a.party(stranger)], of.token.Reveal())
	})
}

// revokeGranted takes several Updates: a refused one may have been the last.
func (d *drill) revokeGranted(t *testing.T, a *authorization) {
	call := d.ticks.Add(1)
	var err error
	d.house.Enter(func(f *storetest.Fixture) {
		var u store.User
		if u, err = f.FindUser(context.Background(), d.users[a.user]); err == nil {
			err = f.RevokeGranted(context.Background(), store.By{}, u, d.clients[a.client].ID)
		}
	})
	d.widely(a.user, a.client, asked{verb: verbRevokeGranted}, answer{unknown: err != nil}, call)
}

// endUser ends all tokens of a user, as after a stolen laptop, and enables the user
// again.
func (d *drill) endUser(t *testing.T, a *authorization) {
	call := d.ticks.Add(1)
	var err error
	d.house.Enter(func(f *storetest.Fixture) {
		_, err = f.DisableUser(context.Background(), d.users[a.user])
		_, _ = f.EnableUser(context.Background(), d.users[a.user]) // else the next round does
	})
	d.widely(a.user, -1, asked{verb: verbEndUser}, answer{unknown: err != nil}, call)
}
