package views

// scopeWords says what each scope allows, as the consent screen puts it to
// the person who decides.
var scopeWords = map[string]string{
	"events:read":     "Read the events of your account",
	"resources:read":  "Read customers, transactions, payment accounts and invoices",
	"resources:write": "Create, change and delete customers, transactions, payment accounts and invoices",
}

// ScopeWords returns the permission that scope stands for in plain words, as
// a sentence without its full stop. A scope it has no words for comes back as
// it is: a permission must never be missing from a consent screen.
func ScopeWords(scope string) string {
	if words, ok := scopeWords[scope]; ok {
		return words
	}
	return scope
}
