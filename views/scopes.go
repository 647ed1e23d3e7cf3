package views

import (
	"slices"
	"strings"
)

// allowedByScope says what each scope allows.
var allowedByScope = map[string]string{
	"events:read":     "Read the events of your account",
	"resources:read":  "Read customers, transactions, payment accounts and invoices",
	"resources:write": "Create, change and delete customers, transactions, payment accounts and invoices",
	"webhooks:read":   "See where events of your account are sent",
	"webhooks:write":  "Choose where events of your account are sent",
}

// amountsTo says what a client with a platform scope can come to do, or see.
var amountsTo = map[string]string{
	"accounts:read":  "Names of all accounts",
	"users:read":     "Names and e-mail addresses of everybody",
	"clients:read":   "Names and settings of all clients",
	"tokens:read":    "Who uses which client, and when",
	"accounts:write": "It can lock every merchant out",
	"accounts:act":   "All data of all merchants, as far as its data scopes go",
	"accounts:erase": "It can delete what no backup brings back",
	"users:write":    "It can make itself a user of any account, so: all data",
	"users:recover":  "It can become any user but an operator",
	"clients:write":  "It can add a redirect URI to any client and phish codes",
	"tokens:revoke":  "It can sign everybody out",
	"audit:read":     "Sources and times of all that anybody does",
}

// amountOf says what a scope of a platform client amounts to.
func amountOf(scope string) string {
	if words, ok := amountsTo[scope]; ok {
		return words
	}
	return "With accounts:act, for any account: " + scopeWords(scope)
}

// scopeWords describes a scope in a sentence without its full stop. An unknown scope is
// returned unchanged: no permission may be missing from a consent screen.
func scopeWords(scope string) string {
	if words, ok := allowedByScope[scope]; ok {
		return words
	}
	return scope
}

const allScopes = "All"

// scopesShown lists scopes by name, or says that they are all of those that reach data.
func scopesShown(scopes []string) string {
	unknown := func(s string) bool { return allowedByScope[s] == "" }
	if len(scopes) == len(allowedByScope) && !slices.ContainsFunc(scopes, unknown) {
		return allScopes
	}
	return strings.Join(scopes, ", ")
}
