package must

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// EnvLong makes the tests that have a long form run it: 1 for the whole of it, or how
// long the rounds of a test may take, such as 30m.
const EnvLong = "TOLLHOUSE_LONG"

var began = time.Now()

// Long reports whether the long forms are enabled.
func Long() bool { return os.Getenv(EnvLong) != "" }

// More reports whether a test that has run done rounds runs another: up to short, or up
// to long in the long form, until the time of [EnvLong] is over, but at least one.
func More(done, short, long int) bool {
	if !Long() {
		return done < short
	}
	most, err := time.ParseDuration(os.Getenv(EnvLong))
	return done < long && (done == 0 || err != nil || time.Since(began) < most)
}

// Figure logs what a run has measured, for the command that runs the long forms
// (bench/long). The name has no spaces; the unit is the name's last part, as in
// reopened_ms.
func Figure[N int | int64 | float64](t testing.TB, name string, value N) {
	t.Helper()
	t.Logf("figure %s %s", name, strconv.FormatFloat(float64(value), 'f', -1, 64))
}
