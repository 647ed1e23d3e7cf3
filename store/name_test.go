package store_test

import (
	"errors"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
)

func TestInstanceName(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"Larkspur":              true,
		strings.Repeat("é", 60): true,
		"":                      false,
		strings.Repeat("é", 61): false,
		"\xff":                  false,
		"Lark\u202espur":        false,
		"\u2800 \u0301":         false,
		"two\nlines":            false,
	} {
		err := store.CheckInstanceName(name)
		invalid, is := errors.AsType[*record.InvalidError](err)
		if (err == nil) != valid || is == valid || is && (invalid.Field != "instance_name" || invalid.Hint == "") {
			t.Errorf("CheckInstanceName(%q) = %v, want valid: %t", name, err, valid)
		}
	}
}
