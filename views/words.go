package views

// scopeWords describes what each scope allows, for the consent screen.
var scopeWords = map[string]string{
	"events:read":     "Read the events of your account",
	"resources:read":  "Read customers, transactions, payment accounts and invoices",
	"resources:write": "Create, change and delete customers, transactions, payment accounts and invoices",
	"webhooks:read":   "See where events of your account are sent",
	"webhooks:write":  "Choose where events of your account are sent",
}

// ScopeWords describes a scope in a sentence without its full stop. An unknown scope is
// returned unchanged: no permission may be missing from a consent screen.
func ScopeWords(scope string) string {
	if words, ok := scopeWords[scope]; ok {
		return words
	}
	return scope
}
