package web_test

import (
	"testing"

	"tollhouse/handlers/web"
)

// TestSentenceKeepsNames: a reason becomes a sentence, and what must be typed as it is keeps
// its case.
func TestSentenceKeepsNames(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ reason, field, want string }{
		{"the line is too long", "", "The line is too long."},
		{"a password has 12 to 1024 bytes", "password", "A password has 12 to 1024 bytes."},
		{"resources of several kinds may have it", "kind", "Resources of several kinds may have it."},
		{"order must be strict or none", "order", "order must be strict or none."},
		{"types has it", "webhook.types", "types has it."},
		{"createdAt is missing", "", "createdAt is missing."},
		{"eventData.object must be an object", "eventData.object", "eventData.object must be an object."},
		{`"x" is not a scope`, "scopes", `"x" is not a scope.`},
		{"tollhouse client show ID lists them", "", "tollhouse client show ID lists them."},
		{"the type is unknown; did you mean customer.created?", "type", "The type is unknown; did you mean customer.created?"},
		{"", "", "."},
	} {
		if got := web.Sentence(tt.reason, tt.field); got != tt.want {
			t.Errorf("Sentence(%q, %q) = %q, want %q", tt.reason, tt.field, got, tt.want)
		}
	}
}
