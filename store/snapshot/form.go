package snapshot

import (
	"regexp"
	"time"
)

// form is the type of a field, both as a check and as the JSON Schema that documents
// it. A test compares the two.
type form struct {
	check  func(Value) string // says what is wrong, or ""
	schema Value
}

var (
	text = form{mustBe(String), parsed(`{"type":"string"}`)}
	list = form{mustBe(Array), parsed(`{"type":"array","items":{"type":["object","array","string","number","boolean","null"],"x-go-type":"any"}}`)}

	// A patch may have null members, which are no part of a snapshot.
	ownData = form{mustBe(Object), parsed(`{"type":"object","maxProperties":50,"additionalProperties":{"type":"string","maxLength":500},` +
		`"propertyNames":{"pattern":` + string(AppendString(nil, metadataNamePattern)) + `},` +
		`"description":"Data of your own: at most 50 strings of at most 500 characters."}`)}

	email = matching(`[^ \t\r\n\f@]+@[^ \t\r\n\f@]+`, "must be an e-mail address", "An e-mail address, or empty.")
	flag  = matching(`[0-9]`, `must be one digit, such as "1" for yes`, "One digit, such as 1 for yes, or empty.")
	last4 = matching(`[0-9]{1,4}`, "must be the last four digits and no more", "The last four digits and no more, or empty.")

	// The empty string means no date.
	date = form{checkDate, parsed(`{"type":"string","if":{"type":"string","minLength":1},"then":{"type":"string","format":"date"},"description":"A date in the form YYYY-MM-DD, or empty."}`)}

	// A number, or a string like the specification's own amounts.
	amount = form{checkAmount, parsed(`{"type":["string","number"],"x-go-type":"any","pattern":` + string(AppendString(nil, amountPattern)) +
		`,"exclusiveMinimum":-1000000000000000,"exclusiveMaximum":1000000000000000,` +
		`"description":"A decimal amount with at most 15 digits before the point and 6 behind it, written without an exponent."}`)}
)

// parsed reads one of our own schemas.
func parsed(text string) Value {
	v, err := Parse([]byte(text), DepthMax)
	if err != nil {
		panic("snapshot: " + text + ": " + err.Error())
	}
	return v
}

func mustBe(kind Kind) func(Value) string {
	return func(v Value) string {
		if v.kind != kind {
			return "must be " + kind.String() + ", not " + v.kind.String()
		}
		return ""
	}
}

// matching is the form of a string that is empty or matches a pattern as a whole. The
// pattern must mean the same in Go and in ECMA-262.
func matching(pattern, want, description string) form {
	pattern = "^(" + pattern + ")?$"
	re := regexp.MustCompile(pattern)
	check := func(v Value) string {
		if wrong := text.check(v); wrong != "" || re.MatchString(v.text) {
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

var amountForm = regexp.MustCompile(amountPattern)

func checkAmount(v Value) string {
	if v.kind != String && v.kind != Number || !amountForm.MatchString(v.text) {
		return `must be a decimal amount, such as "148.50"`
	}
	return ""
}
