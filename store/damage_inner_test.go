package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tollhouse/store/kv"
)

func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	for tag := range recordKinds {
		if kindWords[tag] == "" {
			t.Errorf("damage to records of the kind %q has no name", tag)
		}
	}
	for _, c := range []struct {
		first, last string
		want        string
	}{
		{"eacct\x00", "facct\x00", "events, token families"},
		{"E\x01", "E\x02", "events and their lists"},
		{"c", "c\xff", "clients"},
		{"x", "", "event ids given elsewhere, lists of events by type, lists of events by resource"},
	} {
		if got := strings.Join(NameKeys([]byte(c.first), []byte(c.last)), ", "); got != c.want {
			t.Errorf("NameKeys(%q, %q) = %s, want %s", c.first, c.last, got, c.want)
		}
	}
	if n := len(NameKeys(nil, nil)); n != len(kindWords) {
		t.Errorf("NameKeys(all) = %d names, want %d", n, len(kindWords))
	}
	err := nameDamaged(fmt.Errorf("read: %w", &kv.CorruptError{Kind: 'r', Reason: "x"}))
	if !errors.Is(err, kv.ErrCorrupt) || !strings.HasSuffix(err.Error(), " (among the refresh tokens)") {
		t.Errorf("nameDamaged() = %v", err)
	}
}
