// Package must ends a test at a step that is not under test and has to succeed, such as
// creating the user of a scenario. It imports nothing of this module, so the tests of
// every package can use it.
package must

import "testing"

// Do ends the test if err is not nil.
func Do(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get returns a function that returns v, or ends the test if err is not nil:
//
//	user := must.Get(s.FindUser(ctx, id))(t)
func Get[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}
