package secret

import (
	"context"
	"errors"
	"testing"
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
