package snapshot

import (
	"testing"

	"pgregory.net/rapid"

	"tollhouse/store/storetest/must"
)

// The examples of RFC 7396, appendix A.
func TestMerge(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, target, patch, want string }{
		{"replaces", `{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{"adds", `{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{"removes_the_last", `{"a":"b"}`, `{"a":null}`, `{}`},
		{"removes_one", `{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{"replaces_an_array", `{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{"replaces_by_an_array", `{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{"merges_within", `{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{"replaces_an_array_of_objects", `{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{"replaces_a_whole_array", `["a","b"]`, `["c","d"]`, `["c","d"]`},
		{"replaces_an_object_by_an_array", `{"a":"b"}`, `["c"]`, `["c"]`},
		{"replaces_all_by_null", `{"a":"foo"}`, `null`, `null`},
		{"replaces_all_by_a_string", `{"a":"foo"}`, `"bar"`, `"bar"`},
		{"keeps_nulls_of_the_target", `{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{"makes_an_object_of_an_array", `[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{"makes_objects_without_nulls", `{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Merge(mustParse(t, tt.target), mustParse(t, tt.patch))
			if got.String() != tt.want {
				t.Errorf("Merge(%s, %s) = %s, want %s", tt.target, tt.patch, got, tt.want)
			}
		})
	}
}

// The rules for previousAttributes; the names carry their numbers.
//
// Promise (§3.2): equal members are absent; any difference has its whole value; no difference, no
// event
func TestPrevious(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, before, after, want string }{
		{"a_new_member_was_null", `{}`, `{"a":1}`, `{"a":null}`},
		{"a_removed_member_is_whole", `{"a":{"b":[1,null]}}`, `{}`, `{"a":{"b":[1,null]}}`},
		{"only_what_differs_within", `{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"c":3}}`, `{"a":{"c":2}}`},
		{"a_member_added_within", `{"a":{}}`, `{"a":{"b":1}}`, `{"a":{"b":null}}`},
		{"arrays_are_whole", `{"a":[1,2,3]}`, `{"a":[1,2,4]}`, `{"a":[1,2,3]}`},
		{"a_changed_sort_is_whole", `{"a":{"b":1}}`, `{"a":"x"}`, `{"a":{"b":1}}`},
		{"null_in_an_array_counts", `{"a":[null]}`, `{"a":[]}`, `{"a":[null]}`},
		{"equal_members_are_absent", `{"a":1,"b":2}`, `{"a":1.0,"b":3}`, `{"b":2}`},
		{"another_order_is_no_change", `{"a":1,"b":{"c":1,"d":2}}`, `{"b":{"d":2,"c":1},"a":1}`, ``},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before, after := mustParse(t, tt.before), mustParse(t, tt.after)
			got, differs := Previous(before, after)
			if differs != (tt.want != "") || differs && got.String() != tt.want {
				t.Errorf("Previous(%s, %s) = %s, %v, want %s", before, after, got, differs, tt.want)
			}
			if back := Merge(after, got); !back.Equal(before) {
				t.Errorf("Merge(%s, %s) = %s, want %s", after, got, back, before)
			}
		})
	}
}

// Pairs of each of rapid's 100 checks: 30,000 in all, and 300,000 in the long
// form.
const (
	pairsPerCheck     = 300
	pairsPerCheckLong = 3000
)

// Promise (§3.2): previousAttributes merged into the new snapshot give the previous one
func TestMergeUndoesAChange(t *testing.T) {
	t.Parallel()
	pairs := pairsPerCheck
	if must.Long() {
		pairs = pairsPerCheckLong
	}
	t.Run("mergePatch_of_previousAttributes_is_the_snapshot_before", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			for range pairs {
				before := drawObject(t, 3).WithoutNulls()
				after := drawChanged(t, before).WithoutNulls()
				checkUndone(t, before, after)
			}
		})
	})
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func checkUndone(t fataler, before, after Value) {
	previous, differs := Previous(before, after)
	if differs == before.Equal(after) {
		t.Fatalf("Previous(%s, %s) differs: %v", before, after, differs)
	}
	if back := Merge(after, previous); !back.Equal(before) {
		t.Fatalf("Merge(%s, %s) = %s, want %s", after, previous, back, before)
	}
}

var (
	drawnName   = rapid.SampledFrom([]string{"a", "b", "c", "d", ""})
	drawnNumber = rapid.SampledFrom([]string{"0", "-0", "1", "1.0", "10e-1", "2", "99999999999999999999"})
	drawnText   = rapid.SampledFrom([]string{"", "x", "1", "<é>"})
	drawnKind   = rapid.IntRange(0, 7)
)

// drawObject draws a small object with few names, so that pairs overlap.
func drawObject(t *rapid.T, depth int) Value {
	var members []Member
	for range rapid.IntRange(0, 4).Draw(t, "members") {
		name := drawnName.Draw(t, "name")
		if _, taken := ObjectOf(members...).Member(name); !taken {
			members = append(members, Member{name, drawValue(t, depth)})
		}
	}
	return ObjectOf(members...)
}

func drawValue(t *rapid.T, depth int) Value {
	switch kind := drawnKind.Draw(t, "sort"); {
	case kind == 0:
		return Value{}
	case kind == 1:
		return Value{kind: Bool, text: "true"}
	case kind <= 3:
		return Value{kind: Number, text: drawnNumber.Draw(t, "number")}
	case kind == 4 || depth == 0:
		return Text(drawnText.Draw(t, "text"))
	case kind == 5:
		elements := []Value{}
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			elements = append(elements, drawValue(t, depth-1))
		}
		return Value{kind: Array, elements: elements}
	}
	return drawObject(t, depth-1)
}

// drawChanged draws what a caller might put in place of v: another value, or v with a few
// members changed, in another order.
func drawChanged(t *rapid.T, v Value) Value {
	if rapid.Bool().Draw(t, "replaced") {
		return drawObject(t, 3)
	}
	var members []Member
	for _, m := range rapid.Permutation(v.members).Draw(t, "order") {
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0: // removed
		case 1:
			if m.Value.kind == Object {
				m.Value = drawChanged(t, m.Value)
			} else {
				m.Value = drawValue(t, 2)
			}
			members = append(members, m)
		default:
			members = append(members, m)
		}
	}
	return ObjectOf(members...)
}

func FuzzMergeUndoesAChange(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[1,null]}}`), []byte(`{"a":1.0,"b":{"d":{}}}`))
	f.Add([]byte(`{}`), []byte(`{"a":{"b":{"c":1}}}`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		p, err := Parse(before, DepthMax)
		if err != nil || p.Kind() != Object {
			return
		}
		n, err := Parse(after, DepthMax)
		if err != nil || n.Kind() != Object {
			return
		}
		checkUndone(t, p.WithoutNulls(), n.WithoutNulls())
	})
}
