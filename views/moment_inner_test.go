package views

import "testing"

// TestSentenceKeepsNames: what doctor found begins with a capital, unless it begins with an
// address or a file.
func TestSentenceKeepsNames(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"none, all complete":                      "None, all complete.",
		"the server is ready":                     "The server is ready.",
		"https://pay.example reaches this server": "https://pay.example reaches this server.",
		"secret.key is missing":                   "secret.key is missing.",
		"--trusted-proxies have sent nothing":     "--trusted-proxies have sent nothing.",
		"":                                        "",
	} {
		if got := sentence(reason); got != want {
			t.Errorf("sentence(%q) = %q, want %q", reason, got, want)
		}
	}
}
