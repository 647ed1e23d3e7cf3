package moving

import (
	"reflect"

	"tollhouse/store/snapshot"
)

// Append appends the line of a record, with its line end. It leaves out what Parse fills in: the
// members that are null, false, or without text or elements.
func Append(b []byte, r Record) ([]byte, error) {
	b = snapshot.AppendString(append(b, '{'), r.noun())
	b = append(b, ':')
	if e, is := r.(*Event); is {
		b = append(b, e.Text...)
		return append(b, "}\n"...), nil
	}
	separator := byte('{')
	for field, value := range reflect.ValueOf(r).Elem().Fields() {
		if value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0 {
			continue
		}
		encoded, err := snapshot.EncodeJSON(value.Interface())
		if err != nil {
			return b, err
		}
		b = snapshot.AppendString(append(b, separator), MemberName(field))
		b = append(append(b, ':'), encoded...)
		separator = ','
	}
	if separator == '{' {
		b = append(b, '{')
	}
	return append(b, "}}\n"...), nil
}
