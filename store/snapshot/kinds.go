package snapshot

import (
	"slices"
	"strconv"
	"strings"
)

// The specification names four kinds of resource, and only their members are checked.
// It defines the shape of customer alone; the fields of the other three are our
// choice, documented by these tables, and so is metadata, for data of the platform's own. A
// resource of any other kind, listed here or not, may be any object.

// Rules are what a resource of the four kinds must be. The zero Rules allow their documented
// fields only.
type Rules struct {
	OpenKinds bool // they may be any object too
}

type resourceKind struct {
	name    string
	meaning string  // one sentence: what a resource of the kind is
	fields  []field // nil allows any
}

// field is one documented member: its name and the form of its value.
type field struct {
	name string
	form form
}

var resourceKinds = []resourceKind{
	// The specification says "All fields are strings."
	{"customer", "A customer is a person or business that is billed.", []field{
		{"customerRef", text}, {"displayName", text}, {"company", text},
		{"firstName", text}, {"lastName", text}, {"displayAs", text},
		{"address1", text}, {"address2", text}, {"city", text}, {"state", text},
		{"zip", text}, {"country", text}, {"phone", text}, {"phoneExt", text},
		{"email", email}, {"dateAdded", date}, {"notes", text}, {"active", flag},
		{metadata, ownData},
	}},
	// Our choice: of the number only the last four digits are recorded.
	{"account", "An account, the specification's PaymentAccount, is a card or a bank account on file.", []field{
		{"customer", text}, {"method", text}, {"displayName", text}, {"holder", text},
		{"brand", text}, {"last4", last4}, {"expiry", text}, {"bankName", text},
		{"accountType", text}, {"token", text}, {"isDefault", flag}, {"status", text},
		{"statusReason", text}, {"dateAdded", date}, {metadata, ownData},
	}},
	{"transaction", "A transaction moves an amount once, by card or ACH.", []field{
		{"customer", text}, {"account", text}, {"invoice", text}, {"batch", text},
		{"type", text}, {"method", text}, {"status", text}, {"amount", amount},
		{"tax", amount}, {"tip", amount}, {"refundedAmount", amount}, {"currency", text},
		{"description", text}, {"reference", text}, {"brand", text}, {"last4", last4},
		{"authCode", text}, {"responseCode", text}, {"responseText", text},
		{"returnCode", text}, {"returnReason", text}, {"transactionDate", date},
		{"settledDate", date}, {metadata, ownData},
	}},
	{"invoice", "An invoice asks a customer for an amount by a date.", []field{
		{"customer", text}, {"number", text}, {"status", text}, {"currency", text},
		{"subtotal", amount}, {"tax", amount}, {"total", amount}, {"amountPaid", amount},
		{"amountDue", amount}, {"issueDate", date}, {"dueDate", date}, {"paidDate", date},
		{"description", text}, {"reference", text}, {"notes", text}, {"lines", list},
		{metadata, ownData},
	}},
	{"recurring", "A recurring schedule repeats a payment.", nil},
	{"batch", "A batch holds the transactions that are settled together.", nil},
	{"deposit", "A deposit pays a settled batch into the bank.", nil},
	{"token", "A token stands for a card or bank account in the vault.", nil},
	{"user", "A user is a person who signs in.", nil},
	{"client", "A client is an application that acts for users.", nil},
	{"webhook_endpoint", "A webhook endpoint receives pushed events.", nil},
	{"system", "The system is this service itself.", nil},
}

// Kinds returns the names of the described kinds, the specification's four first.
// Resources of other kinds are allowed too.
func Kinds() []string {
	names := make([]string, 0, len(resourceKinds))
	for _, k := range resourceKinds {
		names = append(names, k.name)
	}
	return names
}

// IsDescribed reports whether a kind is one of [Kinds].
func IsDescribed(name string) bool { return find(name) != nil }

func find(name string) *resourceKind {
	i := slices.IndexFunc(resourceKinds, func(k resourceKind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return &resourceKinds[i]
}

// fieldsOf returns the documented fields of a kind, or nil when it allows any.
func (r Rules) fieldsOf(name string) []field {
	if k := find(name); k != nil && !r.OpenKinds {
		return k.fields
	}
	return nil
}

// Schema returns the JSON Schema (2020-12) of a snapshot of one of [Kinds], built from
// the table that [Rules.Check] uses. Other kinds get the schema that holds for all: an
// object with its id and kind.
func (r Rules) Schema(name string) Value {
	k := find(name)
	if k == nil {
		k = &resourceKind{meaning: "A resource of any kind is an object with its id and the name of its kind."}
	}
	nameSchema := `{"type":"string","description":"The kind of the resource."}`
	if k.name != "" {
		nameSchema = `{"type":"string","enum":["` + k.name + `"],"x-enum-varnames":["Object` + TypeName(k.name) + `"]}`
	}
	properties := []Member{
		{"id", parsed(`{"type":"string","pattern":"^[A-Za-z0-9_-]{1,64}$","description":"The id of the resource."}`)},
		{"object", parsed(nameSchema)},
	}
	fields := r.fieldsOf(k.name)
	for _, f := range fields {
		properties = append(properties, Member{f.name, f.form.schema})
	}
	schema := []Member{
		{"type", Text("object")},
		{"description", Text(k.meaning)},
		{"required", parsed(`["id","object"]`)},
		{"properties", ObjectOf(properties...)},
	}
	// Generated code drops the members of an object that does not say it has others.
	hasOthers := Value{kind: Bool, text: strconv.FormatBool(fields == nil)}
	return ObjectOf(append(schema, Member{"additionalProperties", hasOthers})...)
}

// TypeName returns the name of a kind as programs write the names of types:
// WebhookEndpoint for webhook_endpoint.
func TypeName(kind string) string {
	var name strings.Builder
	for word := range strings.SplitSeq(kind, "_") {
		if word != "" {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return name.String()
}
