package pgkv

import "testing"

func TestMaskHidesPasswords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, want string }{
		{"postgres://toll:hunter2@h1,h2:5433/db?sslmode=verify-full", "postgres://toll:xxxxx@h1,h2:5433/db?sslmode=verify-full"},
		{"postgresql://toll@h/db", "postgresql://toll@h/db"},
		{"postgres:///db?host=/run/postgresql&pass%77ord=hunter2&sslpassword=hunter3", "postgres:///db?host=/run/postgresql&pass%77ord=xxxxx&sslpassword=xxxxx"},
		{"postgres://toll:hunter2?x@h/db", "postgres://toll:xxxxx@h/db"},
		{"postgres://toll:hunter2/x@h/db", "postgres://xxxxx"},
		{"postgres://toll:hunter2/x?y@h/db", "postgres://xxxxx"},
		{"host=h password=hunter2", "xxxxx"},
	} {
		if got := Mask(c.url); got != c.want {
			t.Errorf("Mask(%q) = %q, want %q", c.url, got, c.want)
		}
	}
}
