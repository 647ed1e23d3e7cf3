package must_test

import (
	"errors"
	"strconv"
	"testing"

	"tollhouse/store/storetest/must"
)

// ended is a test that records how it ends.
type ended struct{ with []any }

func (e *ended) Helper()           {}
func (e *ended) Fatal(with ...any) { e.with = with }

func TestMust(t *testing.T) {
	t.Parallel()
	t.Run("returns_the_value_of_a_call_that_succeeds", func(t *testing.T) {
		t.Parallel()
		e := &ended{}
		if n := must.Get(strconv.Atoi("7"))(e); n != 7 || e.with != nil {
			t.Errorf("Get() = %d and the test ended with %v, want 7 and no end", n, e.with)
		}
	})
	t.Run("ends_the_test_with_the_error", func(t *testing.T) {
		t.Parallel()
		e, err := &ended{}, errors.New("broken")
		must.Get(0, err)(e)
		if len(e.with) != 1 || e.with[0] != err {
			t.Errorf("the test ended with %v, want %v", e.with, err)
		}
	})
}
