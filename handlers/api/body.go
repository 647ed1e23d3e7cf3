package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tollhouse/handlers/web"
	"tollhouse/store/snapshot"
	"tollhouse/store/spelling"
)

const bodyDepthMax = 3 // nesting of the body of a call

// Members are those of a JSON body. The first one that cannot be read is kept as refused.
type Members struct {
	snapshot.Value
	refused *web.Problem
}

// ReadMembers reads the body of a call, an object of known members. Unknown ones are
// refused, because a misspelt filter would send more than was meant. A body that may be
// left out counts as an empty object. meant maps the names in other APIs to ours; alive
// judges the caller again, because a body may arrive long after its header.
func ReadMembers(w http.ResponseWriter, r *http.Request, alive func() error, mayBeAbsent bool, meant map[string]string, known ...string) (*Members, error) {
	accepted := []string{web.AsJSON}
	if r.Method == http.MethodPatch {
		accepted = patchTypes
	}
	text, err := web.ReadJSON(w, r, mayBeAbsent, accepted...)
	if err != nil {
		return nil, err
	}
	if err := alive(); err != nil {
		return nil, err
	}
	if text == nil {
		return &Members{Value: snapshot.ObjectOf()}, nil
	}
	body, err := snapshot.Parse(text, bodyDepthMax)
	if err != nil {
		return nil, resourceProblem(err)
	}
	if body.Kind() != snapshot.Object {
		return nil, web.NewProblem(http.StatusBadRequest, "invalid_json", "The body must be a JSON object.")
	}
	for _, m := range body.Members() {
		if !slices.Contains(known, m.Name) {
			return nil, unknownMember(m.Name, meant, known)
		}
	}
	return &Members{Value: body}, nil
}

func unknownMember(name string, meant map[string]string, known []string) *web.Problem {
	shown := web.ShownName(name)
	p := web.NewProblem(http.StatusBadRequest, "unknown_field", "%s is not a member of this request.", shown).On(shown)
	near, ok := meant[strings.ToLower(name)]
	if !ok || !slices.Contains(known, near) {
		near, ok = spelling.Nearest(name, slices.Values(known))
	}
	if ok {
		p.Description = strings.TrimSuffix(p.Description, ".") + "; did you mean " + near + "?"
	}
	return p
}

// Given reports whether a member was sent, as null or with a value.
func (m *Members) Given(name string) bool {
	_, ok := m.Member(name)
	return ok
}

// HasValue reports whether a member was sent with a value; null counts as absent.
func (m *Members) HasValue(name string) bool {
	v, _ := m.Member(name)
	return v.Kind() != snapshot.Null
}

// Refuse keeps why a member is refused, unless another was before.
func (m *Members) Refuse(name, format string, args ...any) {
	if m.refused == nil {
		m.refused = web.InvalidParameter(name, format, args...)
	}
}

// Err returns what was refused, or nil.
func (m *Members) Err() error {
	if m.refused == nil {
		return nil
	}
	return m.refused
}

// Text returns a member that must be a string, or "" if it is absent or null.
func (m *Members) Text(name string) string {
	v, _ := m.Member(name)
	switch v.Kind() {
	case snapshot.Null:
		return ""
	case snapshot.String:
		return v.Text()
	}
	m.Refuse(name, "must be a string.")
	return ""
}

// Texts returns a member that must be a list of strings, or nil if it is absent or null.
func (m *Members) Texts(name string) []string {
	v, _ := m.Member(name)
	if v.Kind() == snapshot.Null {
		return nil
	}
	list := make([]string, 0, len(v.Elements()))
	for _, e := range v.Elements() {
		if e.Kind() != snapshot.String {
			break
		}
		list = append(list, e.Text())
	}
	if v.Kind() != snapshot.Array || len(list) < len(v.Elements()) {
		m.Refuse(name, "must be a list of strings.")
	}
	return list
}

// Seconds returns a member that must be a whole number from least to most, or other if it is
// absent or null.
func (m *Members) Seconds(name string, other, least, most int64) int64 {
	v, _ := m.Member(name)
	if v.Kind() == snapshot.Null {
		return other
	}
	n, err := strconv.ParseInt(v.String(), 10, 64)
	if v.Kind() != snapshot.Number || err != nil || n < least || n > most {
		m.Refuse(name, "must be a whole number of seconds from %d to %d.", least, most)
	}
	return n
}

// TextIf is Text of a member that was sent, or nil.
func (m *Members) TextIf(name string) *string { return ifGiven(m, name, m.Text) }

// TextsIf is Texts of a member that was sent, or nil.
func (m *Members) TextsIf(name string) *[]string { return ifGiven(m, name, m.Texts) }

// Flag returns a member that must be true or false; false if it is absent or null.
func (m *Members) Flag(name string) bool {
	v, _ := m.Member(name)
	if k := v.Kind(); k != snapshot.Null && k != snapshot.Bool {
		m.Refuse(name, "must be true or false.")
	}
	return v.String() == "true"
}

// FlagIf is Flag of a member that was sent, or nil.
func (m *Members) FlagIf(name string) *bool { return ifGiven(m, name, m.Flag) }

func ifGiven[T any](m *Members, name string, read func(string) T) *T {
	if !m.Given(name) {
		return nil
	}
	v := read(name)
	return &v
}

// MustBe refuses a member that differs from what the path says.
func (m *Members) MustBe(name, inPath string) {
	if m.Given(name) && m.Text(name) != inPath && m.refused == nil {
		m.refused = web.NewProblem(http.StatusConflict, "conflict", "%s differs from the path; leave it out.", name).On(name)
	}
}
