package store

import (
	"testing"

	"tollhouse/store/secret"
)

// A check that read an access token just before a late retry replaced its pair may
// record the use afterwards. That does not confirm the new pair.
func TestConfirmationGoesByTheAccessToken(t *testing.T) {
	t.Parallel()
	var m lastUsed
	m.init()
	replaced, fresh, refresh := secret.Hash{1}, secret.Hash{2}, secret.Hash{3}
	m.tokenUsed(replaced, refresh)
	if !m.isConfirming(replaced) || m.isConfirming(fresh) || m.isConfirming(refresh) {
		t.Error("a noted use counts for another pair than the one it was a use of")
	}
	tokens, _ := m.take()
	if !m.isConfirming(replaced) {
		t.Error("the use is not counted while its note is being written")
	}
	m.done(tokens)
	if m.isConfirming(replaced) || len(m.confirming) > 0 {
		t.Error("the use is counted when its note is written")
	}
}

// Uses that wait are bounded in memory, and written in bounded batches that lose none.
func TestUsesThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	var m lastUsed
	m.init()
	hash := func(i int) secret.Hash { return secret.Hash{byte(i), byte(i >> 8), byte(i >> 16), 1} }
	for i := range lastUsedMax + 5 {
		m.tokenUsed(hash(i), secret.Hash{})
		m.sessionSeen(hash(i))
	}
	written := map[string]int{}
	for {
		tokens, sessions := m.take()
		if n := len(tokens) + len(sessions); n == 0 {
			break
		} else if n > lastUsedBatchMax {
			t.Fatalf("a batch has %d uses, more than %d", n, lastUsedBatchMax)
		}
		written["tokens"] += len(tokens)
		written["sessions"] += len(sessions)
		m.done(tokens)
	}
	if written["tokens"] != lastUsedMax || written["sessions"] != lastUsedMax {
		t.Errorf("%v were written, want %d of each", written, lastUsedMax)
	}
}
