package snapshot

import (
	"regexp"
	"sync"
	"time"
)

// form is what the value of a field must be: once as the check that is made,
// once as the JSON Schema that tells of it. They stand beside each other so that
// neither is changed alone, and a test compares them.
type form struct {
	check  func(Value) string // says what is wrong, or ""
	schema Value
}

var (
	text   = form{mustBe(String), parsed(`{"type":"string"}`)}
	list   = form{mustBe(Array), parsed(`{"type":"array"}`)}
	object = form{mustBe(Object), parsed(`{"type":"object"}`)}

	email = matching(`[^ \t\r\n\f@]+@[^ \t\r\n\f@]+`, "must be an e-mail address", "An e-mail address, or empty.")
	flag  = matching(`[0-9]`, `must be one digit, such as "1" for yes`, "One digit, such as 1 for yes, or empty.")
	last4 = matching(`[0-9]{1,4}`, "must be the last four digits and no more", "The last four digits and no more, or empty.")

	// A calendar date; the empty string says "none".
	date = form{checkDate, parsed(`{"type":"string","anyOf":[{"const":""},{"format":"date"}],"description":"A date in the form YYYY-MM-DD, or empty."}`)}

	// A decimal as a number or, as the specification's fields are, as a string.
	amount = form{checkAmount, parsed(`{"anyOf":[` +
		`{"type":"string","pattern":` + string(AppendString(nil, amountPattern)) + `},` +
		`{"type":"number","exclusiveMinimum":-1000000000000000,"exclusiveMaximum":1000000000000000}],` +
		`"description":"A decimal amount with at most 15 digits before the point and 6 behind it, written without an exponent."}`)}
)

// parsed reads a schema of our own.
func parsed(text string) Value {
	v, err := Parse([]byte(text), DepthMax)
	if err != nil {
		panic("snapshot: " + text + ": " + err.Error())
	}
	return v
}

func mustBe(sort Sort) func(Value) string {
	return func(v Value) string {
		if v.sort != sort {
			return "must be " + sort.String() + ", not " + v.sort.String()
		}
		return ""
	}
}

// matching is the form of a string that is empty, which says "none", or is all
// of a pattern. The pattern means the same in Go and in ECMA-262.
func matching(pattern, want, description string) form {
	pattern = "^(" + pattern + ")?$"
	re := compiledLater(pattern)
	check := func(v Value) string {
		if wrong := text.check(v); wrong != "" || re().MatchString(v.text) {
			return wrong
		}
		return want
	}
	return form{check, ObjectOf(Member{"type", Text("string")}, Member{"pattern", Text(pattern)}, Member{"description", Text(description)})}
}

func checkDate(v Value) string {
	if wrong := text.check(v); wrong != "" || v.text == "" {
		return wrong
	}
	if _, err := time.Parse(time.DateOnly, v.text); err != nil {
		return "must be a date in the form YYYY-MM-DD"
	}
	return ""
}

const amountPattern = `^-?[0-9]{1,15}(\.[0-9]{1,6})?$`

var amountForm = compiledLater(amountPattern)

// compiledLater is a pattern that is compiled when it is first asked: most
// commands judge no snapshot.
func compiledLater(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

func checkAmount(v Value) string {
	if v.sort != String && v.sort != Number || !amountForm().MatchString(v.text) {
		return `must be a decimal amount, such as "148.50"`
	}
	return ""
}
