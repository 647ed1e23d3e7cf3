package snapshot

// Merge applies a JSON Merge Patch (RFC 7396 §2) to target and returns the result.
// Remaining members keep their order; new ones come last.
func Merge(target, patch Value) Value {
	if patch.kind != Object {
		return patch
	}
	patches := indexOf(patch.members)
	merged := make([]Member, 0, len(target.members)+len(patch.members))
	for i, m := range target.members {
		change, ok := patches.find(m.Name, i)
		switch {
		case !ok:
			merged = append(merged, m)
		case change.kind != Null:
			merged = append(merged, Member{m.Name, Merge(m.Value, change)})
		}
	}
	known := indexOf(target.members)
	for i, m := range patch.members {
		if _, ok := known.find(m.Name, i); !ok && m.Value.kind != Null {
			merged = append(merged, Member{m.Name, Merge(Value{}, m.Value)})
		}
	}
	return Value{kind: Object, members: merged}
}

// Previous returns what the change from before to after replaced: the former values of
// the members that differ, and null for a member that is new. Objects are compared
// member by member; arrays, and values that changed their kind, are returned whole. It
// returns false when nothing differs.
//
// Both must be objects without null members ([Value.WithoutNulls]). Then Merge(after,
// Previous(before, after)) equals before.
func Previous(before, after Value) (Value, bool) {
	var changed []Member
	olds := indexOf(before.members)
	for i, now := range after.members {
		old, ok := olds.find(now.Name, i)
		if !ok {
			changed = append(changed, Member{now.Name, Value{}})
			continue
		}
		if old.kind == Object && now.Value.kind == Object {
			if inner, differs := Previous(old, now.Value); differs {
				changed = append(changed, Member{now.Name, inner})
			}
			continue
		}
		if !old.Equal(now.Value) {
			changed = append(changed, Member{now.Name, old})
		}
	}
	news := indexOf(after.members)
	for i, old := range before.members {
		if _, ok := news.find(old.Name, i); !ok {
			changed = append(changed, old)
		}
	}
	return Value{kind: Object, members: changed}, len(changed) > 0
}
