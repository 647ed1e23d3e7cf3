package views

// allowedByScope says what each scope allows.
var allowedByScope = map[string]string{
	"events:read":     "Read the events of your account",
	"resources:read":  "Read customers, transactions, payment accounts and invoices",
	"resources:write": "Create, change and delete customers, transactions, payment accounts and invoices",
	"webhooks:read":   "See where events of your account are sent",
	"webhooks:write":  "Choose where events of your account are sent",
}

// scopeWords describes a scope in a sentence without its full stop. An unknown scope is
// returned unchanged: no permission may be missing from a consent screen.
func scopeWords(scope string) string {
	if words, ok := allowedByScope[scope]; ok {
		return words
	}
	return scope
}
