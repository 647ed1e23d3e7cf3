package handlers_test

import (
	"strings"
	"testing"
)

// TestPagePolicy: a page loads and runs only files from this server. Where forms may lead,
// TestFormAction checks.
//
// Promise (RFC 9700 §4.4, §4.7, §4.12, §4.16): framing; scripts and styles in a page
func TestPagePolicy(t *testing.T) {
	for name, a := range everyAnswer(t, parallelHouse(t)) {
		if !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policy := directivesOf(a.Header.Get("Content-Security-Policy"))
			for directive, sources := range policy {
				if sources != "'none'" && sources != "'self'" {
					t.Errorf("%s %s, want 'none' or 'self'", directive, sources)
				}
			}
			// What has no rule of its own uses this one.
			if policy["default-src"] != "'none'" {
				t.Errorf("default-src %s, want 'none'", policy["default-src"])
			}
			// These have no default: omitted, they allow everything (CSP 3 §6.3 and §6.4).
			for _, directive := range []string{"frame-ancestors", "base-uri"} {
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
