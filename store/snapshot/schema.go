package snapshot

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"tollhouse/store/spelling"
)

// Four kinds of resource are named by the specification, and their members are
// checked. Customer is the only one whose shape it gives; the fields of the
// others are our choice, documented by these tables. Every other kind takes any
// object.

// field is one documented member: its name and what its value must be.
type field struct {
	name  string
	check func(Value) string // says what is wrong, or ""
}

var schemas = map[string][]field{
	// The specification: "All fields are strings."
	"customer": {
		{"customerRef", text}, {"displayName", text}, {"company", text},
		{"firstName", text}, {"lastName", text}, {"displayAs", text},
		{"address1", text}, {"address2", text}, {"city", text}, {"state", text},
		{"zip", text}, {"country", text}, {"phone", text}, {"phoneExt", text},
		{"email", email}, {"dateAdded", date}, {"notes", text}, {"active", flag},
	},
	// Our choice: a PaymentAccount is a card or a bank account on file. Only
	// the last four digits of its number exist here.
	"account": {
		{"customer", text}, {"method", text}, {"displayName", text}, {"holder", text},
		{"brand", text}, {"last4", last4}, {"expiry", text}, {"bankName", text},
		{"accountType", text}, {"token", text}, {"isDefault", flag}, {"status", text},
		{"statusReason", text}, {"dateAdded", date}, {"metadata", object},
	},
	// Our choice: a Transaction moves an amount once, by card or ACH.
	"transaction": {
		{"customer", text}, {"account", text}, {"invoice", text}, {"batch", text},
		{"type", text}, {"method", text}, {"status", text}, {"amount", amount},
		{"tax", amount}, {"tip", amount}, {"refundedAmount", amount}, {"currency", text},
		{"description", text}, {"reference", text}, {"brand", text}, {"last4", last4},
		{"authCode", text}, {"responseCode", text}, {"responseText", text},
		{"returnCode", text}, {"returnReason", text}, {"transactionDate", date},
		{"settledDate", date}, {"metadata", object},
	},
	// Our choice: an Invoice asks a customer for an amount by a date.
	"invoice": {
		{"customer", text}, {"number", text}, {"status", text}, {"currency", text},
		{"subtotal", amount}, {"tax", amount}, {"total", amount}, {"amountPaid", amount},
		{"amountDue", amount}, {"issueDate", date}, {"dueDate", date}, {"paidDate", date},
		{"description", text}, {"reference", text}, {"notes", text}, {"lines", list},
		{"metadata", object},
	},
}

func text(v Value) string { return mustBe(v, String) }

func list(v Value) string { return mustBe(v, Array) }

func object(v Value) string { return mustBe(v, Object) }

func mustBe(v Value, sort Sort) string {
	if v.sort != sort {
		return "must be " + sort.String() + ", not " + v.sort.String()
	}
	return ""
}

// form checks a string against a pattern; the empty string says "none".
func form(pattern, want string) func(Value) string {
	re := regexp.MustCompile(pattern)
	return func(v Value) string {
		if v.sort != String {
			return mustBe(v, String)
		}
		if v.text != "" && !re.MatchString(v.text) {
			return want
		}
		return ""
	}
}

var (
	email = form(`^[^\s@]+@[^\s@]+$`, "must be an e-mail address")
	flag  = form(`^[0-9]$`, `must be one digit, such as "1" for yes`)
	last4 = form(`^[0-9]{1,4}$`, "must be the last four digits and no more")

	amountForm = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]{1,6})?$`)
)

// amount takes a decimal as a number or, as the specification's fields are, as
// a string.
func amount(v Value) string {
	if v.sort != String && v.sort != Number {
		return `must be a decimal amount, such as "148.50"`
	}
	if !amountForm.MatchString(v.text) {
		return `must be a decimal amount, such as "148.50"`
	}
	return ""
}

func date(v Value) string {
	if v.sort != String {
		return mustBe(v, String)
	}
	if v.text == "" {
		return ""
	}
	if _, err := time.Parse(time.DateOnly, v.text); err != nil {
		return "must be a date in the form YYYY-MM-DD"
	}
	return ""
}

// Check holds a body that somebody sent for a resource to the fields of its
// kind. Members that are null, which a patch uses to remove, need only be known.
// Errors: *Error with InvalidField, UnknownField, or MismatchedField when id or object is there
// and is not the one that the path says.
func Check(kind, id string, v Value) error {
	if v.sort != Object {
		return fault(InvalidField, "", "the body must be an object, not %s", v.sort)
	}
	fields, known := schemas[kind]
	for _, m := range v.members {
		switch {
		case m.Name == "id":
			if err := mustEqual(m, id); err != nil {
				return err
			}
		case m.Name == "object":
			if err := mustEqual(m, kind); err != nil {
				return err
			}
		case known:
			if err := checkMember(kind, fields, m); err != nil {
				return err
			}
		}
	}
	return nil
}

func mustEqual(m Member, want string) error {
	if m.Value.sort == String && m.Value.text == want {
		return nil
	}
	return fault(MismatchedField, m.Name, "%s is %q by the path and cannot be another; leave it out of the body", m.Name, want)
}

func checkMember(kind string, fields []field, m Member) error {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == m.Name })
	if i < 0 {
		e := fault(UnknownField, shorten(m.Name), "%s is not a field of kind %s", shorten(m.Name), kind)
		if near, ok := spelling.Nearest(m.Name, names(fields)); ok {
			e.Reason += "; did you mean " + near + "?"
		}
		return e
	}
	if m.Value.sort == Null {
		return nil
	}
	if wrong := fields[i].check(m.Value); wrong != "" {
		return fault(InvalidField, m.Name, "%s %s", m.Name, wrong)
	}
	return nil
}

func names(fields []field) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, f := range fields {
			if !yield(f.name) {
				return
			}
		}
	}
}

// Complete returns v as the snapshot of the resource: without nulls, id and
// object first, then the documented fields in their order, then the others in
// the order sent. A customer has every field: the absent ones are "", but
// displayAs is contact, active is 1, and dateAdded is as it was in before, else
// today.
func Complete(kind, id string, v, before Value, today string) Value {
	v = v.WithoutNulls()
	fields := schemas[kind]
	members := make([]Member, 0, len(v.members)+len(fields)+2)
	members = append(members, Member{"id", Text(id)}, Member{"object", Text(kind)})
	for _, f := range fields {
		if value, ok := v.Member(f.name); ok {
			members = append(members, Member{f.name, value})
		} else if kind == "customer" {
			members = append(members, Member{f.name, Text(customerDefault(f.name, before, today))})
		}
	}
	for _, m := range v.members {
		if m.Name == "id" || m.Name == "object" || slices.ContainsFunc(fields, func(f field) bool { return f.name == m.Name }) {
			continue
		}
		members = append(members, m)
	}
	return Value{sort: Object, members: members}
}

func customerDefault(name string, before Value, today string) string {
	switch name {
	case "displayAs":
		return "contact"
	case "active":
		return "1"
	case "dateAdded":
		if was, ok := before.Member(name); ok && strings.TrimSpace(was.text) != "" {
			return was.text
		}
		return today
	}
	return ""
}
