package snapshot

import "slices"

// Four kinds of resource are named by the specification, and their members are
// checked. Customer is the only one whose shape it gives; the fields of the
// others are our choice, documented by these tables. Every other kind takes any
// object, whether it is named here, because the catalogue of event types has
// it, or not.

// kind is one kind of resource.
type kind struct {
	name    string
	meaning string  // one sentence: what a resource of the kind is
	fields  []field // nil when it takes any
}

// field is one documented member: its name and the form of its value.
type field struct {
	name string
	form form
}

var kinds = []kind{
	// The specification: "All fields are strings."
	{"customer", "A customer is somebody who is billed.", []field{
		{"customerRef", text}, {"displayName", text}, {"company", text},
		{"firstName", text}, {"lastName", text}, {"displayAs", text},
		{"address1", text}, {"address2", text}, {"city", text}, {"state", text},
		{"zip", text}, {"country", text}, {"phone", text}, {"phoneExt", text},
		{"email", email}, {"dateAdded", date}, {"notes", text}, {"active", flag},
	}},
	// Our choice: only the last four digits of its number exist here.
	{"account", "An account, the specification's PaymentAccount, is a card or a bank account on file.", []field{
		{"customer", text}, {"method", text}, {"displayName", text}, {"holder", text},
		{"brand", text}, {"last4", last4}, {"expiry", text}, {"bankName", text},
		{"accountType", text}, {"token", text}, {"isDefault", flag}, {"status", text},
		{"statusReason", text}, {"dateAdded", date}, {"metadata", object},
	}},
	{"transaction", "A transaction moves an amount once, by card or ACH.", []field{
		{"customer", text}, {"account", text}, {"invoice", text}, {"batch", text},
		{"type", text}, {"method", text}, {"status", text}, {"amount", amount},
		{"tax", amount}, {"tip", amount}, {"refundedAmount", amount}, {"currency", text},
		{"description", text}, {"reference", text}, {"brand", text}, {"last4", last4},
		{"authCode", text}, {"responseCode", text}, {"responseText", text},
		{"returnCode", text}, {"returnReason", text}, {"transactionDate", date},
		{"settledDate", date}, {"metadata", object},
	}},
	{"invoice", "An invoice asks a customer for an amount by a date.", []field{
		{"customer", text}, {"number", text}, {"status", text}, {"currency", text},
		{"subtotal", amount}, {"tax", amount}, {"total", amount}, {"amountPaid", amount},
		{"amountDue", amount}, {"issueDate", date}, {"dueDate", date}, {"paidDate", date},
		{"description", text}, {"reference", text}, {"notes", text}, {"lines", list},
		{"metadata", object},
	}},
	{"recurring", "A recurring schedule makes a payment again and again.", nil},
	{"batch", "A batch holds the transactions that are settled together.", nil},
	{"deposit", "A deposit is what a settled batch pays into the bank.", nil},
	{"token", "A token stands in the vault for a card or bank account.", nil},
	{"user", "A user is a person who signs in.", nil},
	{"client", "A client is an application that acts for users.", nil},
	{"webhook_endpoint", "A webhook endpoint is where events are pushed to.", nil},
	{"system", "The system is this service itself.", nil},
}

// Kinds returns the names of the kinds that are described, the specification's
// four first. A resource may be of any other kind too.
func Kinds() []string {
	names := make([]string, 0, len(kinds))
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// IsDescribed reports whether a kind is one of [Kinds].
func IsDescribed(name string) bool { return find(name) != nil }

func find(name string) *kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return &kinds[i]
}

// fieldsOf returns the documented fields of a kind, or nil when it takes any.
func fieldsOf(name string) []field {
	if k := find(name); k != nil {
		return k.fields
	}
	return nil
}

// Schema returns the JSON Schema (2020-12) of a snapshot of one of [Kinds], made
// from the table that [Check] goes by. It tells of every other kind what holds
// for all: an object with its id and kind.
func Schema(name string) Value {
	k := find(name)
	if k == nil {
		k = &kind{meaning: "A resource of any kind is an object with its id and the name of its kind."}
	}
	kindSchema := `{"type":"string","description":"The kind of the resource."}`
	if k.name != "" {
		kindSchema = `{"const":"` + k.name + `"}`
	}
	properties := []Member{
		{"id", parsed(`{"type":"string","pattern":"^[A-Za-z0-9_-]{1,64}$","description":"The id of the resource."}`)},
		{"object", parsed(kindSchema)},
	}
	for _, f := range k.fields {
		properties = append(properties, Member{f.name, f.form.schema})
	}
	schema := []Member{
		{"type", Text("object")},
		{"description", Text(k.meaning)},
		{"required", parsed(`["id","object"]`)},
		{"properties", ObjectOf(properties...)},
	}
	if k.fields != nil {
		schema = append(schema, Member{"additionalProperties", parsed(`false`)})
	}
	return ObjectOf(schema...)
}
