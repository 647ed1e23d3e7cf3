package store_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

var oneSeed = flag.Int64("seed", -1, "run TestSimulation with this seed alone")

const (
	simulatedOps   = 500
	simulatedSeeds = 60 // and in the long form
	simulatedMax   = 10_000
	opsOnDisk      = 60 // where a commit waits for the disk
	diskEvery      = 60 // seeds, of which one is on disk
	checkedEvery   = 100
)

// TestSimulation runs random operations on a store with injected faults. A seed decides
// everything: the operations and their order, tokens and ids, the steps of the clock, the
// commits that fail or whose answer is lost, and the crashes. After each operation its
// outcome must be the model's, and at intervals everything in the store must.
//
//	go test ./store -run TestSimulation -seed 123
func TestSimulation(t *testing.T) {
	t.Parallel()
	must.SkipUnderRace(t)
	first, least := uint64(0), simulatedSeeds
	if testing.Short() {
		least = simulatedSeeds / 3
		first = simulatedSeeds - uint64(least) // with the one on disk
	}
	if must.Long() {
		first = uint64(time.Now().UnixNano()) / diskEvery * diskEvery
		t.Logf("seeds from %d", first)
	}
	more := func(done int) bool { return must.More(done, least, simulatedMax) }
	if *oneSeed >= 0 {
		first, more = uint64(*oneSeed), func(done int) bool { return done == 0 }
	}
	total, seeds, diverged := map[string]int{}, 0, 0
	for ; more(seeds) && diverged == 0; seeds++ {
		s := newSimulation(t, first+uint64(seeds), simulationSite{onDisk: (first+uint64(seeds))%diskEvery == diskEvery-1})
		s.run()
		for what, n := range s.seen {
			total[what] += n
		}
		if t.Failed() {
			diverged++
		}
	}
	t.Logf("%v", total)
	must.Figure(t, "seeds", seeds)
	for _, what := range []string{"operations", "injected", "crashes", "clock steps", "checks"} {
		must.Figure(t, strings.ReplaceAll(what, " ", "_"), total[what])
	}
	must.Figure(t, "diverged", diverged)
	if seeds < least || diverged > 0 {
		return
	}
	for _, what := range append(simulatedKinds(), "refused", "vanished", "committed unheard", "crashes") {
		if total[what] == 0 {
			t.Errorf("no seed met %q", what)
		}
	}
}

// TestSimulationRepeatsItself: two runs of a seed make the same calls, get the same
// outcomes and leave the same records.
func TestSimulationRepeatsItself(t *testing.T) {
	t.Parallel()
	must.SkipUnderRace(t)
	traces := map[uint64]uint64{}
	for seed := range uint64(3) {
		for range 2 {
			s := newSimulation(t, seed, simulationSite{})
			s.run()
			if before, ran := traces[seed]; ran && before != s.trace.Sum64() {
				t.Errorf("seed %d gave two traces", seed)
			}
			traces[seed] = s.trace.Sum64()
		}
	}
	if traces[0] == traces[1] || traces[1] == traces[2] {
		t.Error("two seeds gave one trace")
	}
}

// TestSimulationCanFail: a store over an engine with a fault is found within a few seeds.
func TestSimulationCanFail(t *testing.T) {
	t.Parallel()
	must.SkipUnderRace(t)
	const within = 40 // seeds
	for name, fault := range map[string]func(*careless, func(kv.Txn) error) error{
		"an_acknowledged_update_is_lost_in_a_crash": nil,
		"an_update_is_committed_twice": func(c *careless, fn func(kv.Txn) error) error {
			return errors.Join(c.DB.Update(context.Background(), fn), c.DB.Update(context.Background(), fn))
		},
		"an_acknowledged_update_is_rolled_back": func(c *careless, fn func(kv.Txn) error) error {
			rolledBack := errors.New("rolled back")
			err := c.DB.Update(context.Background(), func(tx kv.Txn) error {
				if err := fn(tx); err != nil {
					return err
				}
				return rolledBack
			})
			if errors.Is(err, rolledBack) {
				return nil
			}
			return err
		},
		"a_deletion_is_forgotten": func(c *careless, fn func(kv.Txn) error) error {
			return c.DB.Update(context.Background(), func(tx kv.Txn) error { return fn(undeleting{tx}) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(within) {
				outer := &found{TB: t}
				var c careless
				engine := func(db *memkv.DB) kv.DB {
					if fault == nil && c.before != nil {
						db = memkv.NewFrom(c.before, nil)
					}
					c.DB, c.fault = db, fault
					return &c
				}
				func() {
					defer func() {
						if r := recover(); r != nil && r != errDiverged {
							panic(r)
						}
					}()
					newSimulation(outer, seed, simulationSite{engine: engine}).run()
				}()
				if outer.message != "" {
					t.Logf("seed %d: %.120s", seed, outer.message)
					return
				}
			}
			t.Errorf("%d seeds found nothing", within)
		})
	}
}

// careless is an engine that makes one update in fifty with a fault.
type careless struct {
	*memkv.DB
	before  *memkv.State // the latest update
	updates int
	fault   func(*careless, func(kv.Txn) error) error
}

func (c *careless) Update(ctx context.Context, fn func(kv.Txn) error) error {
	c.before = c.State()
	if c.updates++; c.updates%50 == 0 && c.fault != nil {
		return c.fault(c, fn)
	}
	return c.DB.Update(ctx, fn)
}

type undeleting struct{ kv.Txn }

func (undeleting) Delete([]byte) error { return nil }

// found keeps the first failure in place of failing the test.
type found struct {
	testing.TB
	message string
}

var errDiverged = errors.New("diverged")

func (f *found) Fatal(args ...any) { f.Helper(); f.Fatalf("%s", fmt.Sprint(args...)) }
func (f *found) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(errDiverged)
}

// simulation is the run of one seed.
type simulation struct {
	testing.TB
	history

	seed     uint64
	rng      *rand.Rand
	ops      int
	house    *storetest.House
	cleanups []func()
	trace    interface {
		io.Writer
		Sum64() uint64
	}
	last []string // calls, the latest of which explain a failure
	seen map[string]int

	machines []*modelAccess
	sessions []*modelSession
	log      *modelLog
}

type simulationSite struct {
	onDisk bool
	engine func(*memkv.DB) kv.DB
}

func newSimulation(t testing.TB, seed uint64, site simulationSite) *simulation {
	t.Helper()
	s := &simulation{TB: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 500)), ops: simulatedOps, trace: fnv.New64a(), seen: map[string]int{}}
	if site.onDisk {
		s.ops = opsOnDisk
	}
	drawn := map[string]*rand.ChaCha8{} // a sequence for each use, as the operations draw in turns
	s.random = func(sequence string, b []byte) {
		if drawn[sequence] == nil {
			var of [32]byte
			copy(of[:], fmt.Sprintf("%d %s", seed, sequence))
			drawn[sequence] = rand.NewChaCha8(of)
		}
		_, _ = drawn[sequence].Read(b)
	}
	key := secret.NewKey(s.random)
	s.house = storetest.NewHouseAt(s, storetest.Site{InMemory: !site.onDisk, Engine: site.engine, Quiet: true,
		Options: func(o *store.Options) { o.Key, o.Random = key, s.random }})
	s.given, s.losesAnswers = map[int]time.Time{}, true
	s.enter()
	s.f.User(s, modelUser, simulatedAccount)
	for _, change := range []func(*store.ClientSpec){
		func(*store.ClientSpec) {},
		func(c *store.ClientSpec) { c.Consent = store.ConsentRemember },
		func(c *store.ClientSpec) {
			c.Grants, c.Account, c.RedirectURIs = []string{string(store.GrantClientCredentials)}, simulatedAccount, nil
		},
	} {
		c, _ := s.f.Client(s, change)
		s.clients = append(s.clients, c)
	}
	s.log = newModelLog(s)
	return s
}

// enter takes the open store.
func (s *simulation) enter() {
	s.house.Enter(func(f *storetest.Fixture) { s.f = f })
	must.Do(s, s.f.Webhooks.Start(context.Background()))
}

// Cleanup ends with the seed, not with the test of all seeds.
func (s *simulation) Cleanup(fn func()) { s.cleanups = append(s.cleanups, fn) }

func (s *simulation) Fatal(args ...any) { s.Helper(); s.Fatalf("%s", fmt.Sprint(args...)) }

func (s *simulation) Fatalf(format string, args ...any) {
	s.Helper()
	s.TB.Fatalf("seed %d, after %d operations: %s\nthe latest were %s\nagain: go test ./store -run TestSimulation -seed %d",
		s.seed, s.seen["operations"], fmt.Sprintf(format, args...), strings.Join(s.last, ", "), s.seed)
}

func (s *simulation) run() {
	s.Helper()
	defer func() {
		for i := range s.cleanups {
			s.cleanups[len(s.cleanups)-1-i]()
		}
	}()
	kinds := simulatedOperations()
	weights := 0
	for _, k := range kinds {
		weights += k.weight
	}
	for n := range s.ops {
		at := s.rng.IntN(weights)
		i := 0
		for ; at >= kinds[i].weight; i++ {
			at -= kinds[i].weight
		}
		s.step(kinds[i])
		if (n+1)%checkedEvery == 0 {
			s.check()
		}
	}
	s.crash()
	s.check()
	s.traceRecords()
	s.probe(s)
}

// traceRecords adds every key and value to the trace, but for values with parts that no
// seed decides: a client's consent epoch and the nonce of a sealed secret.
func (s *simulation) traceRecords() {
	must.Do(s, s.f.DB.(kv.Snapshotter).Snapshot(context.Background(), func(page []kv.Record) error {
		for _, r := range page {
			_, _ = s.trace.Write(r.Key)
			if !bytes.ContainsRune([]byte{record.TagClient, record.TagConsent, record.TagWebhook}, rune(r.Key[0])) {
				_, _ = s.trace.Write(r.Value)
			}
		}
		return nil
	}))
}

// step makes one operation, one in eight of them with a commit that goes wrong.
func (s *simulation) step(k simulatedKind) {
	s.Helper()
	fault := ""
	if s.rng.IntN(8) == 0 {
		fault = []string{"refused", "vanished", "committed unheard"}[s.rng.IntN(3)]
		s.inject(fault)
	}
	if s.last = append(s.last, k.name); len(s.last) > 20 {
		s.last = s.last[1:]
	}
	before := s.seen["injected"]
	outcome := k.run(s)
	s.f.Faults.Repair()
	if s.seen["injected"] > before {
		s.last[len(s.last)-1] += " (" + fault + ")"
		s.seen[fault]++
	}
	if outcome == "" {
		return // there was nothing to do it to
	}
	s.seen["operations"]++
	s.seen[k.name]++
	fmt.Fprintln(s.trace, k.name, fault, outcome)
}

// inject has the next Update fail, as an engine may fail.
func (s *simulation) inject(fault string) {
	begun := false
	s.f.Faults.OnUpdate(func(run func() error) error {
		if begun {
			return run()
		}
		begun, s.committed = true, false
		s.seen["injected"]++
		switch fault {
		case "refused":
			return kv.ErrUnavailable
		case "vanished":
			return kv.ErrUnknownOutcome
		}
		if err := run(); err != nil {
			return err // the operation was refused, and so is its commit
		}
		s.committed = true
		return kv.ErrUnknownOutcome
	})
}

// crash ends the store without warning and opens what was committed. Uses that were not
// yet written are lost.
func (s *simulation) crash() {
	s.house.Crash(s)
	s.forgetUses()
	s.enter()
	s.seen["crashes"]++
}

func (s *simulation) forgetUses() {
	for _, r := range s.refresh {
		if r.pair != nil {
			r.pair.used = r.pair.stored
		}
	}
	for _, sn := range s.sessions {
		sn.pending = false
	}
}

// flush writes the uses, as the store does in the background. A batch whose commit fails
// is dropped.
func (s *simulation) flush() {
	before := s.seen["injected"]
	s.f.FlushLastUsed(context.Background())
	if s.seen["injected"] > before && !s.committed {
		s.forgetUses()
		return
	}
	for _, r := range s.refresh {
		if r.pair != nil {
			r.pair.stored = r.pair.used
		}
	}
	for _, sn := range s.sessions {
		if now := s.f.Now(); sn.pending && now.After(sn.seen) {
			sn.seen = now
		}
		sn.pending = false
	}
}

// check compares everything that a caller can see with the model, and verifies every
// record and index.
func (s *simulation) check() {
	s.Helper()
	ctx := context.Background()
	s.seen["checks"]++
	for _, a := range append(s.access[:len(s.access):len(s.access)], s.machines...) {
		// Another client's introspection would be no use; FindPrincipal is one, so it
		// counts in the model too.
		s.stepUse(s, a)
	}
	for _, sn := range s.sessions {
		_, err := s.f.PeekSession(ctx, sn.token)
		if sn.lives(s.f.Now()) != (err == nil) || err != nil && !errors.Is(err, record.ErrNotFound) {
			s.Fatalf("PeekSession() = %v, want it live %t", err, err != nil)
		}
	}
	s.log.check(s)
	if _, err := s.f.CheckAll(ctx); err != nil {
		s.Fatalf("CheckAll() = %v", err)
	}
}
