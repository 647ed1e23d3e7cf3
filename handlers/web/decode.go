package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"tollhouse/store/snapshot"
	"tollhouse/store/spelling"
)

// ReadJSON reads the text of a JSON body of one of the media types, or of any if none is named.
// It returns nil for a body that may be left out and is blank, whatever its type.
func ReadJSON(w http.ResponseWriter, r *http.Request, mayBeAbsent bool, accepted ...string) ([]byte, error) {
	if !mayBeAbsent {
		if err := requireMediaType(r, accepted...); err != nil {
			return nil, err
		}
	}
	text, err := ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	text = WithoutMark(text)
	if !mayBeAbsent {
		return text, nil
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	if accepted == nil {
		return text, nil
	}
	return text, requireMediaType(r, accepted...)
}

// DecodeStrictly decodes JSON into to, for people who type it: an unknown or repeated
// member is an error. Its problems name the member, such as match.path or 1.createdAt.
func DecodeStrictly(body []byte, depthMax int, to any) error {
	if _, err := snapshot.Parse(body, depthMax); err != nil { // refuses repeated members
		return BodyProblem(err)
	}
	if refused := decodeMember(body, reflect.ValueOf(to).Elem(), ""); refused != nil {
		return refused
	}
	return nil
}

// BodyProblem says why a body cannot be read: a member with a value that common readers
// cannot hold, or no JSON.
func BodyProblem(err error) *Problem {
	var doc *snapshot.Error
	if errors.As(err, &doc) && doc.Path != "" {
		return DocumentProblem(doc)
	}
	return InvalidRequest("The body is not valid JSON: %s.", PlainWords(err.Error())).Because(err)
}

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// decodeMember decodes one value; name is its path in the body.
func decodeMember(text []byte, to reflect.Value, name string) *Problem {
	text = bytes.TrimSpace(text)
	isNull := bytes.Equal(text, []byte("null"))
	switch {
	case to.Type() == reflect.TypeFor[json.RawMessage]() || to.Kind() == reflect.Interface:
	case isNull && name == "":
		return InvalidRequest("The body must not be null.")
	case isNull:
		return nil // absent
	case to.Kind() == reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		return decodeMember(text, to.Elem(), name)
	case reflect.PointerTo(to.Type()).Implements(unmarshalerType):
	case to.Kind() == reflect.Struct:
		return decodeMembers(text, to, name)
	case to.Kind() == reflect.Slice:
		return decodeItems(text, to, name)
	}
	if err := json.Unmarshal(text, to.Addr().Interface()); err != nil {
		return InvalidRequest("%s %s.", shownMember(name), wrongKind(err, to)).On(name)
	}
	return nil
}

func decodeMembers(text []byte, to reflect.Value, name string) *Problem {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return InvalidRequest("%s must be a JSON object.", shownMember(name)).On(name)
	}
	fields := map[string]reflect.Value{}
	var known []string
	for i := range to.NumField() {
		field, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ",")
		if field == "" || field == "-" {
			continue
		}
		fields[field] = to.Field(i)
		known = append(known, field)
	}
	prefix := name
	if prefix != "" {
		prefix += "."
	}
	for _, member := range SortedNames(members) {
		field, ok := fields[member]
		if !ok {
			return UnknownMember("member", prefix, member, known)
		}
		if refused := decodeMember(members[member], field, prefix+member); refused != nil {
			return refused
		}
	}
	return nil
}

func decodeItems(text []byte, to reflect.Value, name string) *Problem {
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		return InvalidRequest("%s must be a JSON list.", shownMember(name)).On(name)
	}
	if name != "" {
		name += "."
	}
	to.Set(reflect.MakeSlice(to.Type(), len(items), len(items)))
	for i, item := range items {
		at := fmt.Sprint(name, i)
		if string(item) == "null" {
			return InvalidRequest("%s must not be null.", at).On(at)
		}
		if refused := decodeMember(item, to.Index(i), at); refused != nil {
			return refused
		}
	}
	return nil
}

// shownMember names a member at the start of a sentence.
func shownMember(name string) string {
	if name == "" {
		return "The body"
	}
	return name
}

// wrongKind says what a member must be.
func wrongKind(err error, to reflect.Value) string {
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err.Error() // of our own types
	}
	switch to.Kind() {
	case reflect.String:
		return "must be a string"
	case reflect.Bool:
		return "must be true or false"
	case reflect.Map:
		return "must be an object with string values"
	}
	return "must be a whole number"
}

// DocumentProblem maps a JSON error to its status and code.
func DocumentProblem(e *snapshot.Error) *Problem {
	status, code := http.StatusBadRequest, "invalid_json"
	switch e.Fault {
	case snapshot.TooLarge:
		status, code = http.StatusRequestEntityTooLarge, "too_large"
	case snapshot.UnknownField:
		code = "unknown_field"
	case snapshot.InvalidField:
		code = "invalid_field"
	case snapshot.SensitiveField:
		code = "sensitive_data"
	case snapshot.MismatchedField:
		status, code = http.StatusConflict, "conflict"
	}
	return NewProblem(status, code, "%s", Sentence(e.Reason, e.Path)).On(e.Path)
}

// UnknownMember refuses a member or parameter below prefix, and suggests a known one.
func UnknownMember(what, prefix, name string, known []string) *Problem {
	shown := prefix + PlainWords(ShownName(name))
	if near, ok := spelling.Nearest(name, slices.Values(known)); ok {
		return InvalidRequest("Unknown %s %s; did you mean %s?", what, shown, prefix+near).On(shown)
	}
	return InvalidRequest("Unknown %s %s.", what, shown).On(shown)
}
