package moving

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/spelling"
)

// The codes of a line that is refused because of its form.
const (
	InvalidLine   = "invalid_line"   // it is not one object with one known member
	UnknownMember = "unknown_member" // its record has a member of another name
	InvalidValue  = "invalid_parameter"
)

// Error says what is wrong with a line, and what would be right. It repeats no value that may
// be a secret.
type Error struct {
	Code   string
	Param  string // noun and member, such as user.username, or the noun; "" for the whole line
	Reason string // a clause without a full stop
	Hint   string // the next step
	err    error
}

func (e *Error) Error() string { return e.Reason }
func (e *Error) Unwrap() error { return e.err }

const (
	// RecordSizeMax is the size of a record in bytes, without the noun around it.
	RecordSizeMax = eventlog.ImportLineSizeMax
	// LineSizeMax is the size of a line in bytes.
	LineSizeMax = RecordSizeMax + len(`{"resource":}`)

	lineDepthMax = snapshot.DepthMax + 3 // a snapshot in an event in a line
)

const (
	lineForm = `each line is {"account":{…}}, {"client":{…}}, {"user":{…}}, {"resource":{…}}, {"event":{…}}, {"webhook":{…}} or {"token":{…}}`
	utf8Form = "save the file as UTF-8 without a byte order mark"
)

// Parse reads one line, without its line end. isSeed is for a seed file of dev. Errors: *Error.
func Parse(line []byte, isSeed bool) (Record, error) {
	if bytes.HasPrefix(line, []byte("\ufeff")) {
		return nil, &Error{Code: InvalidLine, Reason: "the line begins with a byte order mark", Hint: utf8Form}
	}
	line = bytes.TrimSpace(line)
	v, err := snapshot.Parse(line, lineDepthMax)
	switch {
	case err != nil && !utf8.Valid(line):
		return nil, &Error{Code: InvalidLine, Reason: "the line is not valid UTF-8", Hint: "convert the file, for example with iconv -f ISO-8859-1 -t UTF-8", err: err}
	case err != nil:
		return nil, notJSON(err)
	}
	if v.Kind() != snapshot.Object || len(v.Members()) != 1 {
		return nil, &Error{Code: InvalidLine, Reason: "the line must be one object with one member", Hint: lineForm}
	}
	noun, inside := v.Members()[0].Name, v.Members()[0].Value
	r := newRecord(noun)
	if r == nil {
		return nil, unknownNoun(noun)
	}
	if size := len(line) - len(`{"":}`) - len(noun); size > RecordSizeMax {
		return nil, &Error{Code: InvalidLine, Param: noun, Reason: fmt.Sprintf("the %s has %d bytes, more than %d", noun, size, RecordSizeMax), Hint: "leave out what is not needed"}
	}
	if inside.Kind() != snapshot.Object {
		return nil, &Error{Code: InvalidLine, Param: noun, Reason: fmt.Sprintf("%s must be an object, not %s", noun, inside.Kind()), Hint: lineForm}
	}
	if e, is := r.(*Event); is {
		err = e.read(inside)
	} else if err = decode(inside, r, isSeed); err == nil {
		err = check(r)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// notJSON is the error for a line that is no JSON as we read it.
func notJSON(err error) error {
	e := &Error{Code: InvalidLine, Reason: err.Error(), Hint: lineForm, err: err}
	var doc *snapshot.Error
	if errors.As(err, &doc) {
		e.Param = doc.Path
	}
	return e
}

func unknownNoun(noun string) error {
	e := &Error{Code: InvalidLine, Reason: "the line names no known kind of record", Hint: lineForm}
	if shown := snapshot.Quote(noun); shown != "" {
		e.Reason = "unknown kind " + shown
	}
	if near, ok := spelling.Nearest(noun, slices.Values(Nouns())); ok {
		e.Hint = "did you mean " + near + "?"
	}
	return e
}

// read takes an event, whose members an import of events checks. The account may be called as
// in other lines.
func (e *Event) read(v snapshot.Value) error {
	named, err := eventlog.AccountAsOwner(v)
	if err != nil {
		return invalid("event", "owner", "leave out one of them", "%v", err)
	}
	if owner, has := named.Member("owner"); has && owner.Kind() != snapshot.Null {
		if owner.Kind() != snapshot.String || owner.Text() == "" {
			return invalid("event", "owner", "name the account, or leave it out", "event.owner must be the id of an account")
		}
		e.Owner = owner.Text()
	}
	e.Text = named.Append(nil)
	return nil
}

// decode unmarshals an object into a record. It refuses unknown members.
func decode(v snapshot.Value, into Record, isSeed bool) error {
	noun, known := into.noun(), Members(into, isSeed)
	var given []snapshot.Member // null is absent
	for _, m := range v.Members() {
		if !slices.Contains(known, m.Name) {
			return unknownMember(noun, m.Name, known)
		}
		if m.Value.Kind() != snapshot.Null {
			given = append(given, m)
		}
	}
	var wrong *json.UnmarshalTypeError
	err := json.Unmarshal(snapshot.ObjectOf(given...).Append(nil), into)
	if errors.As(err, &wrong) {
		param := noun
		if wrong.Field != "" {
			param += "." + wrong.Field
		}
		was, _, _ := strings.Cut(wrong.Value, " ") // behind it a number is repeated
		return &Error{Code: InvalidValue, Param: param, Reason: fmt.Sprintf("%s is %s", param, aValue(was)), Hint: "give " + wantedType(wrong.Type), err: err}
	}
	return err
}

func aValue(kind string) string {
	switch kind {
	case "bool":
		return "true or false"
	case "array", "object":
		return "an " + kind
	}
	return "a " + kind
}

func unknownMember(noun, name string, known []string) error {
	e := &Error{Code: UnknownMember, Param: noun, Reason: article(noun) + " has no such member", Hint: "leave it out; the members are " + strings.Join(known, ", ")}
	if shown := snapshot.Quote(name); shown != "" {
		e.Param, e.Reason = noun+"."+strings.Trim(shown, `"`), fmt.Sprintf("%s has no member %s", article(noun), shown)
	}
	if near, ok := spelling.Nearest(name, slices.Values(known)); ok {
		e.Hint = "did you mean " + near + "?"
	}
	return e
}

func article(noun string) string {
	if noun == "account" || noun == "event" {
		return "an " + noun
	}
	return "a " + noun
}

// Members returns the names of a record's members, which are not those of an event.
func Members(of Record, isSeed bool) (names []string) {
	for field := range reflect.TypeOf(of).Elem().Fields() {
		if isSeed || field.Tag.Get("only") == "" {
			names = append(names, MemberName(field))
		}
	}
	return names
}

// NeedsImport reports whether a record has a member that only an import makes, such as the time of
// creation.
func NeedsImport(r Record) bool {
	if _, is := r.(*Event); is {
		return false
	}
	for field, value := range reflect.ValueOf(r).Elem().Fields() {
		if field.Tag.Get("makes") != "" && !value.IsZero() {
			return true
		}
	}
	return false
}

// MemberName returns the name of a member in a line.
func MemberName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

func wantedType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return "a list of objects"
		}
		return "a list of strings"
	case reflect.Struct:
		return "an object"
	case reflect.Int64:
		return "a whole number"
	}
	return "a string"
}

// check refuses both of two members that say the same, times that are none, and a resource
// without its object.
func check(r Record) error {
	noun, v := r.noun(), reflect.ValueOf(r).Elem()
	given := map[string]bool{}
	for field, value := range v.Fields() {
		name := MemberName(field)
		given[name] = !value.IsZero()
		at, isNumber := value.Interface().(*int64)
		if isNumber && at != nil && isTime(name) && (*at < 0 || *at > eventlog.CreatedAtMax) {
			return invalid(noun, name, "give seconds, not milliseconds", "%s.%s must be whole seconds since 1970", noun, name)
		}
	}
	for _, pair := range pairs {
		if given[pair[0]] && given[pair[1]] {
			return invalid(noun, pair[0], "leave out one of them", "%s and %s say the same", pair[0], pair[1])
		}
	}
	if noun == "resource" && !given["object"] {
		return invalid(noun, "object", "give the whole resource", "resource.object is missing")
	}
	return nil
}

// pairs are members that say the same.
var pairs = [][2]string{
	{"client_secret", "client_secret_hash"}, {"password", "password_hash"}, {"access_token", "access_token_sha256"}, {"refresh_token", "refresh_token_sha256"},
	{"expires_at", "expires_in"}, {"refresh_expires_at", "refresh_expires_in"},
}

func isTime(member string) bool {
	return strings.HasSuffix(member, "_at") || member == "createdAt"
}

func invalid(noun, member, hint, format string, args ...any) error {
	return &Error{Code: InvalidValue, Param: noun + "." + member, Reason: fmt.Sprintf(format, args...), Hint: hint}
}
