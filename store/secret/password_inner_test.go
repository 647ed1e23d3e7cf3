package secret

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestHasherQueueIsBounded looks inside, where a full queue can be had without
// racing a crowd for it.
func TestHasherQueueIsBounded(t *testing.T) {
	t.Parallel()
	h := NewHasher()
	for range cap(h.queue) {
		h.queue <- struct{}{}
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel() // or a caller who waited would wait for ever
	t.Run("attack_69_a_hash_past_the_queue_is_refused_at_once", func(t *testing.T) {
		if _, err := h.Hash(gone, "correct horse battery staple"); !errors.Is(err, ErrBusy) {
			t.Errorf("Hash = %v, want %v", err, ErrBusy)
		}
	})
	t.Run("attack_69_and_so_is_a_check_of_anybodys_password", func(t *testing.T) {
		if _, _, err := h.Verify(gone, "", "correct horse battery staple"); !errors.Is(err, ErrBusy) {
			t.Errorf("Verify = %v, want %v", err, ErrBusy)
		}
	})
}

// TestHasherTells: whoever counts learns of each password once, and how it went.
func TestHasherTells(t *testing.T) {
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
	for range cap(h.queue) {
		h.queue <- struct{}{}
	}
	for range cap(h.turns) {
		h.turns <- struct{}{}
	}
	if got := h.Waiting(); got != hashQueueMax {
		t.Errorf("a full queue counts as %d waiting, want %d", got, hashQueueMax)
	}
	if _, err := h.Hash(t.Context(), "correct horse battery staple"); !errors.Is(err, ErrBusy) {
		t.Errorf("Hash behind a full queue = %v, want ErrBusy", err)
	}
	if hashed != 0 || refused != 1 {
		t.Errorf("one refused counts as %d hashed and %d refused", hashed, refused)
	}
	for len(h.turns) > 0 {
		<-h.turns
	}
	for len(h.queue) > 0 {
		<-h.queue
	}
	if _, err := h.Hash(t.Context(), "correct horse battery staple"); err != nil || hashed != 1 || h.Waiting() != 0 {
		t.Errorf("one hashed counts as %d, %v, with %d waiting", hashed, err, h.Waiting())
	}
}
