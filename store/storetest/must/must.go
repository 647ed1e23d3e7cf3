// Package must ends a test at a step that is not under test and has to succeed, such as
// creating the user of a scenario. It imports nothing of this module, so the tests of
// every package can use it.
package must

// T is the part of a test that ends it: of package testing and of package rapid.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test if err is not nil.
func Do(t T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get returns a function that returns v, or ends the test if err is not nil:
//
//	user := must.Get(s.FindUser(ctx, id))(t)
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}
