package handlers_test

import (
	"strings"
	"testing"
)

// TestPagePolicy: a page loads and runs only files from this server. Only forms may lead
// elsewhere, which TestFormAction checks.
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
			// Scripts and the rest have no rule of their own and use this one.
			if policy["default-src"] != "'none'" {
				t.Errorf("default-src %s, want 'none'", policy["default-src"])
			}
			// These have no default: omitted, they allow everything (CSP 3 §6.3 and §6.4).
			for _, directive := range []string{"frame-ancestors", "base-uri", "form-action"} {
				if policy[directive] == "" {
					t.Errorf("the policy says nothing of %s: %v", directive, policy)
				}
			}
		})
	}
}

// directivesOf splits a policy into its directives.
func directivesOf(policy string) map[string]string {
	directives := map[string]string{}
	for directive := range strings.SplitSeq(policy, ";") {
		name, sources, _ := strings.Cut(strings.TrimSpace(directive), " ")
		directives[name] = sources
	}
	return directives
}
