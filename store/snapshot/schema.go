package snapshot

import (
	"iter"
	"slices"
	"strings"

	"tollhouse/store/spelling"
)

// Check compares a body that a caller sent with the fields of its resource's kind. A
// null member, which removes a field in a patch, needs only a known name. Errors:
// *Error with InvalidField or UnknownField, or MismatchedField when id or object
// differs from the path.
func (r Rules) Check(kind, id string, v Value) error {
	if v.kind != Object {
		return fault(InvalidField, "", "the body must be an object, not %s", v.kind)
	}
	fields := r.fieldsOf(kind)
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
		case fields != nil:
			if err := checkMember(kind, fields, m); err != nil {
				return err
			}
		}
	}
	return nil
}

func mustEqual(m Member, want string) error {
	if m.Value.kind == String && m.Value.text == want {
		return nil
	}
	return fault(MismatchedField, m.Name, "%s must be %q to match the resource; leave it out", m.Name, want)
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
	if m.Value.kind == Null {
		return nil
	}
	if wrong := fields[i].form.check(m.Value); wrong != "" {
		return fault(InvalidField, m.Name, "%s %s", m.Name, wrong)
	}
	if m.Name == metadata {
		return checkMetadata(m.Value)
	}
	return nil
}

// NearMiss is a member whose name is close to that of a documented field.
type NearMiss struct{ Name, Field string }

// nearMissesMax bounds what is reported of one body.
const nearMissesMax = 8

// NearMisses returns the members of a body that are not documented fields of its kind but
// look like them. Only open kinds have any: others refuse them.
func (r Rules) NearMisses(kind string, v Value) (misses []NearMiss) {
	fields := Rules{}.fieldsOf(kind)
	if !r.OpenKinds || fields == nil {
		return nil
	}
	for _, m := range v.members {
		if m.Name == "id" || m.Name == "object" || slices.ContainsFunc(fields, func(f field) bool { return f.name == m.Name }) {
			continue
		}
		if near, ok := spelling.Nearest(m.Name, names(fields)); ok && len(misses) < nearMissesMax {
			misses = append(misses, NearMiss{m.Name, near})
		}
	}
	return misses
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

// Complete returns v as the whole snapshot of the resource, which was before, or an
// object without members if v creates it: without nulls, first id and object, then the
// documented fields in their order, then the others in the order sent.
//
// A customer that is created gets every field but metadata: missing ones are "", except that
// displayAs is contact, active is 1, and dateAdded is today. A later snapshot that
// leaves a field out sets it back to that, dateAdded apart, which stays. It adds no
// field that the customer did not have: an imported one is as its history says. Of open
// kinds nothing is filled in.
func (r Rules) Complete(kind, id string, v, before Value, today string) Value {
	v = v.WithoutNulls()
	fields := r.fieldsOf(kind)
	members := make([]Member, 0, len(v.members)+len(fields)+2)
	members = append(members, Member{"id", Text(id)}, Member{"object", Text(kind)})
	for _, f := range fields {
		if value, ok := v.Member(f.name); ok {
			members = append(members, Member{f.name, value})
		} else if kind == "customer" && f.name != metadata && hasField(before, f.name) {
			members = append(members, Member{f.name, Text(customerDefault(f.name, before, today))})
		}
	}
	for _, m := range v.members {
		if m.Name == "id" || m.Name == "object" || slices.ContainsFunc(fields, func(f field) bool { return f.name == m.Name }) {
			continue
		}
		members = append(members, m)
	}
	return Value{kind: Object, members: members}
}

// hasField reports whether a customer that was before has a field, as every new one does.
func hasField(before Value, name string) bool {
	_, has := before.Member(name)
	return has || len(before.members) == 0
}

func customerDefault(name string, before Value, today string) string {
	switch name {
	case "displayAs":
		return "contact"
	case "active":
		return "1"
	case "dateAdded":
		if was, ok := before.Member(name); ok && strings.TrimSpace(was.Text()) != "" {
			return was.Text()
		}
		return today
	}
	return ""
}
