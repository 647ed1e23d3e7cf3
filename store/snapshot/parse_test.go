package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"every_sort_of_value", ` { "a" : [ true , false , null , 1.50 , "x" , { } , [ ] ] } `, `{"a":[true,false,null,1.50,"x",{},[]]}`},
		{"members_keep_their_order", `{"b":1,"a":2}`, `{"b":1,"a":2}`},
		{"numbers_keep_their_spelling", `[-0,1e2,1E+2,0.10,123456789012345678901234567890]`, `[-0,1e2,1E+2,0.10,123456789012345678901234567890]`},
		{"escapes_are_read", `"\"\\\/\b\f\n\r\t\u0041\ud83d\ude00"`, `"\"\\/\b\f\n\r\tA😀"`},
		{"markup_stays_as_it_is", `"</script>&"`, `"</script>&"`},
		{"escaped_markup_is_written_plainly", `"\u003c\u003e\u0026"`, `"<>&"`},
		{"line_ends_beyond_ascii_are_escaped_on_the_way_out", "[\"\u0085\u2028\u2029\",{\"\u0085\":\"\u00a0\"}]", "[\"\\u0085\\u2028\\u2029\",{\"\\u0085\":\"\u00a0\"}]"},
		{"the_greatest_exponent", `1e-9999`, `1e-9999`},
		{"numbers_within_binary64_stay_exact", `[1e308,1.7976931348623158e308,5e-324,-0,-0.0,0e400,1E+2,18446744073709551617]`, `[1e308,1.7976931348623158e308,5e-324,-0,-0.0,0e400,1E+2,18446744073709551617]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := Parse([]byte(tt.in), DepthMax)
			if err != nil {
				t.Fatalf("Parse(%s): %v", tt.in, err)
			}
			if got := v.String(); got != tt.want {
				t.Errorf("Parse(%s) = %s, want %s", tt.in, got, tt.want)
			}
		})
	}
}

// Promise (Attacks on the events API): compressed bodies; a secret in the query of a token request
// Promise (§2.4): a number beyond binary64 and U+0000 are 400 `invalid_json` with the path of the
// member, in every body and line; all other numbers stay exact
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	many := `{"a":0`
	for i := range 40 {
		many += `,"m` + strings.Repeat("x", i) + `":0`
	}
	tests := []struct {
		name, in string
		want     Fault
	}{
		{"nothing", ``, Malformed},
		{"two_values", `{} {}`, Malformed},
		{"an_open_object", `{"a":1`, Malformed},
		{"an_open_array", `[1,`, Malformed},
		{"a_trailing_comma", `{"a":1,}`, Malformed},
		{"a_missing_colon", `{"a" 1}`, Malformed},
		{"a_name_without_quotes", `{a:1}`, Malformed},
		{"duplicate_names", `{"a":1,"a":2}`, Malformed},
		{"duplicate_names_in_different_spellings", `{"a":1,"\u0061":2}`, Malformed},
		{"duplicate_names_among_many", many + `,"a":1}`, Malformed},
		{"a_leading_zero", `01`, Malformed},
		{"a_plus_sign", `+1`, Malformed},
		{"a_bare_minus", `-`, Malformed},
		{"a_fraction_without_digits", `1.`, Malformed},
		{"an_exponent_without_digits", `1e`, Malformed},
		{"an_exponent_past_the_bound", `1e10000`, Malformed},
		{"an_exponent_past_every_integer", `1e99999999999999999999`, Malformed},
		{"a_number_past_the_bound", strings.Repeat("1", numberSizeMax+1), Malformed},
		{"a_word_that_is_no_value", `NaN`, Malformed},
		{"a_misspelt_literal", `nul`, Malformed},
		{"a_raw_newline_in_a_string", "\"a\nb\"", Malformed},
		{"a_raw_control_after_an_escape", "\"\\n\x01\"", Malformed},
		{"an_unknown_escape", `"\x41"`, Malformed},
		{"a_short_unicode_escape", `"\u12"`, Malformed},
		{"a_unicode_escape_that_is_not_hexadecimal", `"\u00g0"`, Malformed},
		{"a_lone_high_surrogate", `"\ud800"`, Malformed},
		{"a_lone_low_surrogate", `"\udc00"`, Malformed},
		{"a_high_surrogate_before_a_letter", `"\ud800\u0041"`, Malformed},
		{"invalid_utf8", "\"\xff\"", Malformed},
		{"a_byte_order_mark", "\ufeff{}", Malformed},
		{"arrays_past_the_depth", strings.Repeat("[", 17) + strings.Repeat("]", 17), TooLarge},
		{"a_bomb_of_brackets", strings.Repeat("[", 1<<20), TooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tt.in), DepthMax)
			var e *Error
			if !errors.As(err, &e) || e.Fault != tt.want {
				t.Fatalf("Parse = %v, want fault %d", err, tt.want)
			}
			if len(e.Reason) > 200 {
				t.Errorf("the reason has %d bytes: %s", len(e.Reason), e.Reason)
			}
		})
	}
	paths := []struct{ name, in, path, reason string }{
		{"a_number_past_binary64", `{"a":1e400}`, "a", "a is a number beyond the range of binary64"},
		{"a_negative_number_past_binary64", `{"a":{"b":[0,{"c":-1e400}]}}`, "a.b[1].c", "a.b[1].c is a number"},
		{"a_number_that_rounds_to_infinity", `[1,[1.7976931348623159e308]]`, "[1][0]", "[1][0] is a number"},
		{"an_exponent_past_every_bound", `{"a":123e999999999}`, "a", "a is a number"},
		{"a_number_alone", `1e400`, "", "the value is a number"},
		{"a_long_number", `{"a":` + strings.Repeat("1", numberSizeMax+1) + `}`, "a", "a is a number with more than"},
		{"nul_in_a_string", `{"a":["x\u0000y"]}`, "a[0]", "a[0] contains U+0000"},
		{"nul_in_a_member_name", `{"a":{"b\u0000":1}}`, "a", "a has a member name that contains U+0000"},
		{"nul_in_a_member_name_at_the_top", `{"\u0000":1}`, "", "the value has a member name that contains U+0000"},
		{"an_unpaired_surrogate", `{"a":{"b":"\ud800"}}`, "a.b", "a.b contains an unpaired surrogate"},
		{"below_a_name_like_a_card_number", `{"a":{"4242424242424242":{"b":1e400}}}`, "a", "a is a number"},
	}
	for _, tt := range paths {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tt.in), DepthMax)
			var e *Error
			if !errors.As(err, &e) || e.Fault != Malformed || e.Path != tt.path || !strings.HasPrefix(e.Reason, tt.reason) {
				t.Errorf("Parse(%s) = %+v, want %q at %q", tt.in, e, tt.reason, tt.path)
			}
		})
	}
	if _, err := Parse([]byte(strings.Repeat("[", 16)+strings.Repeat("]", 16)), DepthMax); err != nil {
		t.Errorf("Parse(16 levels) = %v, want no error", err)
	}
}

// FuzzParse compares Parse with encoding/json: what we accept it accepts, with the same
// meaning, and our encoding is a fixed point. What the parser remembers of the document
// changes neither the encoding nor what is found in it, and neither does a reused arena.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"a":{"b":"c"},"d":[{},[]]}`, `{"a":{"b": "c"}}`, `{"a":{"b":"<"}}`, `{"a":{"b":"\u0041"},"c":{"\u0041":1}}`, `{"a&":["é€"]}`, "[\"\u2028\"]", "{\"\u2029\":{}}",
		`{"pan":"4111 1111 1111 1111"}`, `{"cvv":"\u0031"}`, `["41111111\u00311111111"]`, `{"a":{"b":4111111111111111}}`,
		`{"a":[1,"x",null]}`, `"\ud83d\ude00<>&\u2028"`, `-0.5e+3`, `{"a":1,"a":1}`, `[[[[]]]]`, "\"\\u0000\"", `{"":{}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Parse(data, DepthMax)
		var arena Arena
		for _, before := range []string{`{"a":{"b":1,"c":2}}`, `{"a":{"b":1}} and more`} {
			_, _ = arena.Parse([]byte(before), DepthMax)
			if lent, lentErr := arena.Parse(data, DepthMax); !reflect.DeepEqual(lent, v) || !reflect.DeepEqual(lentErr, err) {
				t.Fatalf("Parse(%q) in an arena = %s, %v, want %s, %v", data, lent, lentErr, v, err)
			}
		}
		if err != nil {
			return
		}
		encoded := v.Append(nil)
		unread := forgotten(v)
		if got := unread.Append(nil); !bytes.Equal(got, encoded) {
			t.Fatalf("Parse(%q) is encoded as %s, and value by value as %s", data, encoded, got)
		}
		if got, want := FindSensitive(v), FindSensitive(unread); !reflect.DeepEqual(got, want) {
			t.Errorf("FindSensitive(%q) = %v, and value by value %v", data, got, want)
		}
		again, err := Parse(encoded, DepthMax)
		if err != nil || !again.Equal(v) || !bytes.Equal(again.Append(nil), encoded) {
			t.Fatalf("Parse(%q) = %s, which reads as %s, %v", data, encoded, again, err)
		}
		if theirs, ours := decodeExactly(t, data), decodeExactly(t, encoded); !bytes.Equal(theirs, ours) {
			t.Errorf("encoding/json reads %q as %s and what we keep of it as %s", data, theirs, ours)
		}
	})
}

// forgotten returns v as if it had been built, not parsed.
func forgotten(v Value) Value {
	switch v.kind {
	case String:
		return Text(v.text)
	case Array:
		elements := make([]Value, len(v.elements))
		for i, element := range v.elements {
			elements[i] = forgotten(element)
		}
		return ArrayOf(elements...)
	case Object:
		members := make([]Member, len(v.members))
		for i, m := range v.members {
			members[i] = Member{m.Name, forgotten(m.Value)}
		}
		return ObjectOf(members...)
	}
	return v
}

// decodeExactly returns the meaning of data as encoding/json sees it.
func decodeExactly(t *testing.T, data []byte) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		t.Fatalf("encoding/json refuses %q: %v", data, err)
	}
	encoded := must.Get(json.Marshal(value))(t)
	return encoded
}

// FuzzAppendString compares the writer of strings with encoding/json, byte by byte.
//
// Promise (§2.4): U+0085, U+2028 and U+2029 leave escaped, `<`, `>` and `&` as they are; export,
// import and export again are identical
func FuzzAppendString(f *testing.F) {
	f.Add("plain")
	f.Add("\"\\\b\f\n\r\t\x00\x1f\x7f<>&\u0084\u0085\u0086\u2028\u2029é😀")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		want := must.Get(EncodeJSON(text))(t)
		if got := AppendString(nil, text); !bytes.Equal(got, want) {
			t.Errorf("AppendString(%q) = %s, want %s", text, got, want)
		}
	})
}

func TestEqual(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, a, b string
		want       bool
	}{
		{"numbers_by_value", `[1,10,0,-0,0.10,1e2,123]`, `[1.0,1e1,0.00,0,1e-1,100,1.23e2]`, true},
		{"numbers_past_any_float", `100000000000000000000000000000001`, `100000000000000000000000000000002`, false},
		{"the_sign_counts", `1`, `-1`, false},
		{"a_number_is_no_string", `1`, `"1"`, false},
		{"members_in_another_order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"a_member_more", `{"a":1}`, `{"a":1,"b":null}`, false},
		{"elements_in_another_order", `[1,2]`, `[2,1]`, false},
		{"an_element_more", `[1]`, `[1,1]`, false},
		{"strings_by_their_characters", `"\u0041"`, `"A"`, true},
		{"true_is_not_false", `true`, `false`, false},
		{"null_is_null", `null`, `null`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := mustParse(t, tt.a).Equal(mustParse(t, tt.b)); got != tt.want {
				t.Errorf("Equal(%s, %s) = %v, want %v", tt.a, tt.b, got, tt.want)
			}
		})
	}
}

func mustParse(t testing.TB, text string) Value {
	t.Helper()
	v, err := Parse([]byte(text), DepthMax)
	if err != nil {
		t.Fatalf("Parse(%s): %v", text, err)
	}
	return v
}

// TestParseRemembersRight builds random documents from values that remember their text
// and values that do not, and compares them with documents built from plain values: what
// is kept and what is found is the same.
func TestParseRemembersRight(t *testing.T) {
	t.Parallel()
	texts := []string{
		``, `x`, `é€😀`, "\x7f", `0`, `4111 1111 1111 1111`, `4111-1111.1111-1111`, `٤١١١١١١١١١١١١١١١`, `411111111111111`, `************1111`, `a1b2`,
		`<`, `&`, `a>b`, "\u0085", "\u00a9", "\u2028", "\u2029", "\u2030",
		`\u0034111111111111111`, `4111111111111\u003111`, `\"`, `\\`, `\/`, `\n`, `\u0001`, `\u0085`, `\u00e9`, `\ud83d\ude00`, `\u2028`, `\u003c`,
	}
	names := append([]string{`cvv`, `Card_Number`, `card number`, `card\u004eumber`, `ssn`, `password`}, texts...)
	plainly := []string{`0`, `-0`, `1.0`, `1E5`, `1e+5`, `-1.50e-3`, `4111111111111111`, `4111111111111112`, `41111111111111110e-1`, `true`, `false`, `null`, `{}`, `[]`}
	random := rand.New(rand.NewPCG(7, 0x5ab))
	one := func(from []string) string { return from[random.IntN(len(from))] }
	var document func(depth int) string
	space := func() string { return strings.Repeat(one([]string{" ", "\t", "\r", "\n"}), max(0, random.IntN(40)-38)) }
	document = func(depth int) string {
		switch kind := random.IntN(8); {
		case depth == 0 || kind < 2:
			return one(plainly)
		case kind < 4:
			return `"` + one(texts) + `"`
		case kind == 4:
			parts := make([]string, random.IntN(4))
			for i := range parts {
				parts[i] = space() + document(depth-1) + space()
			}
			return `[` + strings.Join(parts, `,`) + `]`
		}
		parts := make([]string, random.IntN(1+random.IntN(40)))
		for i := range parts {
			parts[i] = space() + `"` + one(names) + strconv.Itoa(i)[:random.IntN(2)] + `"` + space() + `:` + space() + document(depth-1) + space()
		}
		return `{` + strings.Join(parts, `,`) + `}`
	}
	var arena Arena
	var kept, copied, found int
	for range 4_000 {
		text := document(4)
		v, err := arena.Parse([]byte(text), DepthMax)
		alone, aloneErr := Parse([]byte(text), DepthMax)
		if !reflect.DeepEqual(v, alone) || !reflect.DeepEqual(err, aloneErr) {
			t.Fatalf("Parse(%s) in an arena = %s, %v, want %s, %v", text, v, err, alone, aloneErr)
		}
		if err != nil {
			continue // a name came twice
		}
		unread := forgotten(v)
		sensitive := FindSensitive(v)
		if got, want := v.String(), unread.String(); got != want {
			t.Fatalf("Parse(%s) is encoded as %s, and value by value as %s", text, got, want)
		}
		if want := FindSensitive(unread); !reflect.DeepEqual(sensitive, want) {
			t.Fatalf("FindSensitive(%s) = %v, and value by value %v", text, sensitive, want)
		}
		merged, mergedUnread := Merge(v.WithoutNulls(), alone), Merge(unread.WithoutNulls(), unread)
		if got, want := merged.String(), mergedUnread.String(); got != want {
			t.Fatalf("%s merged with itself is %s, and value by value %s", text, got, want)
		}
		kept++
		if v.kind >= Array && v.text != "" {
			copied++
		}
		if sensitive != nil {
			found++
		}
	}
	if kept < 2_000 || copied < 300 || found < 300 {
		t.Errorf("of %d documents %d were copied whole and %d held what is sensitive: too few to say anything", kept, copied, found)
	}
}
