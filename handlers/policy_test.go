package handlers_test

import (
	"strings"
	"testing"
)

// TestPagePolicy reads what each page lets a browser load and run: from this
// server or not at all. Only forms may lead elsewhere, and TestFormAction says
// where.
func TestPagePolicy(t *testing.T) {
	for name, a := range everyAnswer(t, parallelHouse(t)) {
		if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := directivesOf(a.Header.Get("Content-Security-Policy"))
			for directive, sources := range policy {
				if directive != "form-action" && sources != "'none'" && sources != "'self'" {
					t.Errorf("%s %s, want 'none' or 'self'", directive, sources)
				}
			}
			// Without a rule of their own, scripts and the rest fall to this one.
			if policy["default-src"] != "'none'" {
				t.Errorf("default-src %s, want 'none'", policy["default-src"])
			}
			// These fall to none: unsaid, they allow everything (CSP 3 §6.3 and §6.4).
			for _, directive := range []string{"frame-ancestors", "base-uri", "form-action"} {
				if policy[directive] == "" {
					t.Errorf("the policy says nothing of %s: %v", directive, policy)
				}
			}
		})
	}
}

// directivesOf parts a policy into what it says of what.
func directivesOf(policy string) map[string]string {
	directives := map[string]string{}
	for directive := range strings.SplitSeq(policy, ";") {
		name, sources, _ := strings.Cut(strings.TrimSpace(directive), " ")
		directives[name] = sources
	}
	return directives
}
