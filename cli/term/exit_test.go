package term

import (
	"errors"
	"testing"

	"tollhouse/store"
	"tollhouse/store/kv/badgerkv"
	"tollhouse/store/kv/pgkv"
	"tollhouse/store/record"
)

// TestExitCodes: every error that an operator must act on has its code.
//
// Promise (Commands and settings): each error has the exit code in the help; after what time can
// cure the unit starts again
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want int
		hint bool
	}{
		"exit_74_disk":            {&badgerkv.DiskError{Dir: "d", Reason: "full", Remedy: "free some"}, ExitIO, true},
		"exit_74_unknown_outcome": {record.ErrUnknownOutcome, ExitIO, false},
		"exit_74_corrupt":         {record.ErrCorrupt, ExitIO, false},
		"exit_74_damaged_table":   {&badgerkv.DamageError{Dir: "d", Tables: "000001.sst"}, ExitIO, true},
		"exit_75_unavailable":     {record.ErrUnavailable, ExitBusy, true},
		"exit_75_clock":           {&badgerkv.ClockError{Dir: "d"}, ExitBusy, true},
		"exit_75_start_again":     {&pgkv.RefusedError{Reason: "restored", Remedy: "start again", Passing: true}, ExitBusy, true},
		"exit_78_refused":         {&pgkv.RefusedError{Reason: "too old", Remedy: "upgrade"}, ExitConfig, true},
		"exit_78_behind":          {&badgerkv.BehindError{Dir: "d", Found: 1, Stamped: 2}, ExitConfig, true},
		"exit_78_another_format":  {&store.FormatError{Found: 2}, ExitConfig, true},
		"exit_78_fixtures":        {&store.FixturesError{}, ExitConfig, true},
		"exit_1_anything_else":    {errors.New("odd"), ExitFailed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if f := FailureOf(c.err); f.Code != c.want || (f.Hint != "") != c.hint {
				t.Errorf("asFault(%v) = exit %d, hint %q; want %d", c.err, f.Code, f.Hint, c.want)
			}
		})
	}
}
