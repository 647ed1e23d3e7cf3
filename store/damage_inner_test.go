package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	for tag := range recordKinds {
		if record.KindWords[tag] == "" {
			t.Errorf("damage to records of the kind %q has no name", tag)
		}
	}
	for _, c := range []struct {
		first, last string
		want        string
	}{
		{"f\x00", "hacct\x00", "token families, counts of requests, heads of event logs"},
		{"E\x01", "E\x02", "events and their lists"},
		{"c", "c\xff", "clients"},
		{"x", "", "event ids given elsewhere"},
	} {
		if got := strings.Join(record.NameKeys([]byte(c.first), []byte(c.last)), ", "); got != c.want {
			t.Errorf("NameKeys(%q, %q) = %s, want %s", c.first, c.last, got, c.want)
		}
	}
	if n := len(record.NameKeys(nil, nil)); n != len(record.KindWords) {
		t.Errorf("NameKeys(all) = %d names, want %d", n, len(record.KindWords))
	}
	err := record.NameDamaged(fmt.Errorf("read: %w", &kv.CorruptError{Kind: 'r', Reason: "x"}))
	if !errors.Is(err, kv.ErrCorrupt) || !strings.HasSuffix(err.Error(), " (among the refresh tokens)") {
		t.Errorf("nameDamaged() = %v", err)
	}
}
