package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"tollhouse/cli/datadir"
	"tollhouse/handlers"
	"tollhouse/handlers/dev"
	"tollhouse/handlers/web"
	"tollhouse/store/kv/memkv"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
)

// state is everything that dev returns to at a reset or restore.
type state struct {
	data  *memkv.State
	drawn map[string]uint64 // from the sequences of --rand-seed
	clock dev.ClockState
}

// control resets, saves and restores the instance of dev (dev.Controller). Each
// reset opens a new store over the saved tree and builds new handlers over it, so that
// nothing has to be cleared and nothing can be forgotten.
type control struct {
	running *running
	options datadir.Options // of every instance
	key     secret.Key      // likewise
	dev     dev.Controls    // likewise, but for its clock, faults and journal
	demo    *web.Demo       // likewise
	hosts   *web.Hosts      // likewise
	journal func() *dev.Journal

	changing  sync.Mutex      // one reset, snapshot or restore at a time
	data      *datadir.Opened // of the instance opened last
	random    *sequences      // likewise, or nil
	clock     *dev.Clock
	beginning state

	mu     sync.Mutex // guards the rest
	saved  map[string]state
	resets int
}

func newControl(r *running, f devFlags) *control {
	c := &control{running: r, journal: dev.NewJournal, saved: map[string]state{}}
	if f.maskJournal {
		c.journal = dev.NewMaskedJournal
	}
	if f.seeded {
		c.dev.RandSeed = &f.randSeed
	}
	c.dev.Control, c.dev.Throttle, c.dev.StrictTypes = c, f.throttle, f.strictTypes
	c.hosts = &web.Hosts{Named: f.hosts, OnNetwork: !allLoopback(r.listeners), AsAsked: r.config.publicURL == nil}
	c.key = secret.NewKey(newSequences(c.dev.RandSeed, nil).source())
	c.options = datadir.Options{
		Engine: f.engine, Key: c.key, Log: r.log, Lifetimes: r.config.lifetimes, CardGuard: r.config.cardGuard, OpenKinds: f.openKinds, SecondFactor: r.config.secondFactor,
		Dev:     &datadir.DevOptions{StrictTypes: f.strictTypes, Throttle: f.throttle},
		OnFatal: func(err error) { r.fatal <- err }, OnHash: r.metrics.hashed, OnCommit: r.metrics.committed,
	}
	return c
}

// open opens an instance that begins with s.
func (c *control) open(ctx context.Context, s state, clock *dev.Clock) (*instance, error) {
	o := c.options
	o.State, o.Now = s.data, clock.Now
	random := newSequences(c.dev.RandSeed, s.drawn)
	o.Random = random.source()
	data, err := datadir.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	c.data, c.random, c.clock = data, random, clock
	return newInstance(data), nil
}

// config is what the handlers of the instance opened last are built with.
func (c *control) config() handlers.Config {
	controls := c.dev
	controls.Clock, controls.Faults, controls.Journal = c.clock, dev.NewFaults(), c.journal()
	controls.Seed = c.seeding(c.data, c.random)
	return handlers.Config{Key: c.key, Demo: c.demo, Hosts: c.hosts, Dev: &controls, Random: c.random.source()}
}

// present returns the state of the present instance.
func (c *control) present(ctx context.Context) (state, error) {
	data, err := c.running.data().State(ctx)
	return state{data: data, drawn: c.random.counts(), clock: c.clock.State()}, err
}

// begin makes the present state the one to which a reset returns. demo is what the
// instance shows of itself.
func (c *control) begin(ctx context.Context, demo *web.Demo) (err error) {
	c.demo = demo
	c.beginning, err = c.present(ctx)
	return err
}

// Reset implements dev.Controller.
func (c *control) Reset(ctx context.Context) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	return c.goTo(ctx, c.beginning)
}

// Restore implements dev.Controller.
func (c *control) Restore(ctx context.Context, name string) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	c.mu.Lock()
	s, ok := c.saved[name]
	c.mu.Unlock()
	if !ok {
		return dev.ErrNoSnapshot
	}
	return c.goTo(ctx, s)
}

func (c *control) goTo(ctx context.Context, s state) error {
	i, err := c.open(ctx, s, c.clock.After(s.clock))
	if err != nil {
		return err
	}
	i.server = c.running.newServer(i, c.config())
	c.running.replace(i)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resets++
	return nil
}

// Snapshot implements dev.Controller.
func (c *control) Snapshot(ctx context.Context, name string) (info dev.SnapshotInfo, replaced bool, err error) {
	c.changing.Lock()
	defer c.changing.Unlock()
	s, err := c.present(ctx)
	if err != nil {
		return info, false, err
	}
	events, err := c.running.data().Store.Events.CountEvents(ctx)
	if err != nil {
		return info, false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, replaced = c.saved[name]; !replaced && len(c.saved) == dev.SnapshotsMax {
		return info, false, dev.ErrTooManySnapshots
	}
	c.saved[name] = s
	return dev.SnapshotInfo{Clock: s.clock, Events: events}, replaced, nil
}

// Drop implements dev.Controller.
func (c *control) Drop(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.saved[name]; !ok {
		return dev.ErrNoSnapshot
	}
	delete(c.saved, name)
	return nil
}

// DropAll implements dev.Controller.
func (c *control) DropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.saved)
}

// Names implements dev.Controller.
func (c *control) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.saved))
}

// Resets implements dev.Controller.
func (c *control) Resets() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resets
}

// Counts implements dev.Controller.
func (c *control) Counts(ctx context.Context) (dev.DevCounts, error) {
	n, err := c.running.data().Store.Totals(ctx)
	return dev.DevCounts(n), err
}

// seeding returns the function that creates what lines say in one instance, also after
// that was replaced.
func (c *control) seeding(data *datadir.Opened, random *sequences) func(context.Context, [][]byte) ([]any, error) {
	return func(ctx context.Context, lines [][]byte) ([]any, error) {
		c.changing.Lock()
		defer c.changing.Unlock()
		return c.seed(ctx, data, random.source(), lines)
	}
}

// seed creates what the lines say. It does so in a copy first, so that a line that is
// refused leaves no others behind.
func (c *control) seed(ctx context.Context, to *datadir.Opened, random secret.Source, lines [][]byte) ([]any, error) {
	parsed, err := parseSeed(lines, to.Store.Events.Rules())
	if err != nil {
		return nil, ofSeed(err)
	}
	o := c.options
	o.Engine, o.Now, o.OnHash, o.OnCommit = datadir.EngineMemory, to.Store.Now, nil, nil
	if o.State, err = to.State(ctx); err != nil {
		return nil, err
	}
	rehearsal, err := datadir.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	w := seeder{seed: parsed, to: rehearsal.Store, rules: c.running.config.webhooks.Rules, demo: *c.demo, byTest: true}
	if err := errors.Join(w.run(ctx), rehearsal.Close()); err != nil {
		return nil, ofSeed(err)
	}
	w.to, w.random = to.Store, random
	if err := w.run(context.WithoutCancel(ctx)); err != nil { // a caller that leaves must not stop it half-way
		return nil, ofSeed(err)
	}
	made := make([]any, len(lines))
	for i := range made {
		made[i] = parsed.made[i+1]
	}
	return made, nil
}

func parseSeed(lines [][]byte, kinds snapshot.Rules) (*seed, error) {
	s := &seed{kinds: kinds, made: map[int]any{}}
	for i, line := range lines {
		if err := s.parseLine(i+1, line); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// ofSeed gives an error of a line the form that the handlers know.
func ofSeed(err error) error {
	var of *seedError
	if !errors.As(err, &of) {
		return err
	}
	return &dev.SeedError{Index: of.line - 1, Param: of.param, Hint: of.hint, Reason: of.Error(), Exists: of.exists, Unheld: unheldMember(of.err) != ""}
}
