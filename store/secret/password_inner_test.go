package secret

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// full takes every turn, fills the queue, and returns how to empty both.
func full(h *Hasher) (release func()) {
	var in []*waiter
	for range runtime.GOMAXPROCS(0) + hashQueueMax {
		in = append(in, h.turns.enter(Caller{}, false))
	}
	return func() {
		for _, w := range in { // in the order of their turns
			h.turns.leave(w)
		}
	}
}

// TestHasherQueueIsBounded uses internals, because filling the queue from outside would
// be a race.
//
// Promise (Credentials, memory, connections): 64 sign-ins at once; tokens changed by a character
func TestHasherQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, began := NewHasher(), time.Now()
		full(h)
		if _, err := h.Hash(t.Context(), Caller{}, "correct horse battery staple"); !errors.Is(err, ErrBusy) {
			t.Errorf("Hash = %v, want %v", err, ErrBusy)
		}
		if _, err := h.Verify(t.Context(), Caller{}, "", "correct horse battery staple"); !errors.Is(err, ErrBusy) {
			t.Errorf("Verify of any password = %v, want %v", err, ErrBusy)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("they waited %s, want them refused at once", took)
		}
	})
}

// TestHasherReports: the observer learns of each password once, with its outcome.
func TestHasherReports(t *testing.T) {
	t.Parallel()
	h := NewHasher()
	hashed, refused := 0, 0
	h.OnHash = func(waited, took time.Duration, busy bool) {
		switch {
		case busy:
			refused++
		case took > 0 && waited >= 0:
			hashed++
		}
	}
	release := full(h)
	if got := h.Waiting(); got != hashQueueMax {
		t.Errorf("a full queue counts as %d waiting, want %d", got, hashQueueMax)
	}
	if _, err := h.Hash(t.Context(), Caller{}, "correct horse battery staple"); !errors.Is(err, ErrBusy) {
		t.Errorf("Hash behind a full queue = %v, want ErrBusy", err)
	}
	if hashed != 0 || refused != 1 {
		t.Errorf("one refused counts as %d hashed and %d refused", hashed, refused)
	}
	release()
	if _, err := h.Hash(t.Context(), Caller{}, "correct horse battery staple"); err != nil || hashed != 1 || h.Waiting() != 0 {
		t.Errorf("one hashed counts as %d, %v, with %d waiting", hashed, err, h.Waiting())
	}
}

// TestQuickHasher: dev's passwords cost the least that Argon2id allows, and any other
// server renews them.
func TestQuickHasher(t *testing.T) {
	t.Parallel()
	h, ctx := NewQuickHasher(), context.Background()
	stored, err := h.Hash(ctx, Caller{}, "pw")
	if err != nil || !strings.HasPrefix(stored, "$argon2id$v=19$m=8,t=1,p=1$") {
		t.Fatalf("Hash() = %q, %v", stored, err)
	}
	if v, err := h.Verify(ctx, Caller{}, stored, "pw"); !v.Match || v.Renew || err != nil {
		t.Errorf("Verify() = %+v, %v, want a match that is not renewed", v, err)
	}
	if v, err := NewHasher().Verify(ctx, Caller{}, stored, "pw"); !v.Match || !v.Renew || err != nil {
		t.Errorf("Verify() by a server = %+v, %v, want a match that is renewed", v, err)
	}
}
