package storetest

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

// Shared is an engine in memory that several stores share, as several processes share a
// database.
type Shared struct {
	db kv.DB

	mu    sync.Mutex
	hears map[*hearing]struct{}
	held  [][]byte // notes that wait for ReleaseNotes
	notes notesState
	locks map[string]bool
}

type notesState int

const (
	notesArrive notesState = iota
	notesWait
	notesAreLost
)

// NewShared returns an empty Shared. Notes arrive immediately.
func NewShared() *Shared {
	return &Shared{db: EmptyInMemory(), hears: map[*hearing]struct{}{}, locks: map[string]bool{}}
}

// Open returns the engine as one process sees it.
func (s *Shared) Open() *SharedEngine { return &SharedEngine{Faults: NewFaults(s.db), shared: s} }

// LoseNotes loses all notes from now on.
func (s *Shared) LoseNotes() { s.setNotes(notesAreLost) }

// HoldNotes holds all notes until ReleaseNotes.
func (s *Shared) HoldNotes() { s.setNotes(notesWait) }

// ReleaseNotes lets the notes arrive that were held, and later ones immediately.
func (s *Shared) ReleaseNotes() { s.setNotes(notesArrive) }

func (s *Shared) setNotes(state notesState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notes = state; state != notesArrive {
		return
	}
	for _, note := range s.held {
		s.deliver(note)
	}
	s.held = nil
}

func (s *Shared) deliver(note []byte) {
	for h := range s.hears {
		h.add(note)
	}
}

// SharedEngine is a Shared as one process sees it. To close it leaves the others open.
type SharedEngine struct {
	*Faults
	shared *Shared
	closed atomic.Bool
}

// View is the engine's.
func (e *SharedEngine) View(ctx context.Context, fn func(kv.Reader) error) error {
	if e.closed.Load() {
		return kv.ErrUnavailable
	}
	return e.Faults.View(ctx, fn)
}

// Update is the engine's.
func (e *SharedEngine) Update(ctx context.Context, fn func(kv.Txn) error) error {
	if e.closed.Load() {
		return kv.ErrUnavailable
	}
	return e.Faults.Update(ctx, fn)
}

// Close ends this process's use.
func (e *SharedEngine) Close() error {
	e.closed.Store(true)
	return nil
}

// Call is kv.Caller's.
func (e *SharedEngine) Call(note []byte) {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	switch note = bytes.Clone(note); e.shared.notes {
	case notesArrive:
		e.shared.deliver(note)
	case notesWait:
		e.shared.held = append(e.shared.held, note)
	}
}

// Hear is kv.Caller's.
func (e *SharedEngine) Hear(ctx context.Context, fn func(note []byte)) {
	h := &hearing{wake: make(chan struct{}, 1)}
	e.shared.mu.Lock()
	e.shared.hears[h] = struct{}{}
	e.shared.mu.Unlock()
	defer func() {
		e.shared.mu.Lock()
		defer e.shared.mu.Unlock()
		delete(e.shared.hears, h)
	}()
	fn(nil)
	for {
		select {
		case <-h.wake:
			for _, note := range h.take() {
				fn(note)
			}
		case <-ctx.Done():
			return
		}
	}
}

// TryLock is kv.Locker's.
func (e *SharedEngine) TryLock(_ context.Context, name string) (unlock func(), ok bool, err error) {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	if e.shared.locks[name] {
		return nil, false, nil
	}
	e.shared.locks[name] = true
	return func() {
		e.shared.mu.Lock()
		defer e.shared.mu.Unlock()
		delete(e.shared.locks, name)
	}, true, nil
}

// hearing is a running Hear.
type hearing struct {
	wake chan struct{}

	mu    sync.Mutex
	notes [][]byte
}

func (h *hearing) add(note []byte) {
	h.mu.Lock()
	h.notes = append(h.notes, note)
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hearing) take() (notes [][]byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	notes, h.notes = h.notes, nil
	return notes
}

// SharedEngines open engines, each as two processes see it. Under -short there is none in
// PostgreSQL, which takes seconds to start.
func SharedEngines() map[string]func(testing.TB) (a, b kv.DB) {
	return map[string]func(testing.TB) (a, b kv.DB){
		"in_memory": func(testing.TB) (a, b kv.DB) {
			s := NewShared()
			return s.Open(), s.Open()
		},
		"in_memory_without_notes": func(testing.TB) (a, b kv.DB) {
			s := NewShared()
			s.LoseNotes()
			return s.Open(), s.Open()
		},
		"in_postgres": func(t testing.TB) (a, b kv.DB) {
			must.SkipInShort(t)
			options := pgkv.Options{URL: pgtest.Emptied(t)}.Patient(patience)
			return must.Get(pgkv.Open(context.Background(), options))(t), must.Get(pgkv.Open(context.Background(), options))(t)
		},
	}
}

// Two opens a store on each engine, with one clock and key.
func Two(t testing.TB, a, b kv.DB, change ...func(*store.Options)) (*Fixture, *Fixture) {
	t.Helper()
	clock, key := NewClock(), secret.NewKey(nil)
	change = append(change, func(o *store.Options) { o.Key = key })
	return Open(t, a, clock, change...), Open(t, b, clock, change...)
}
