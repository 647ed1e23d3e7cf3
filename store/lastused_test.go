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
