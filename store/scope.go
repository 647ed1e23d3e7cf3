package store

import "strings"

// Scope is a set of permissions. The zero Scope, ScopeUnstated, is that of a grant
// without a requested scope: null in JSON, and everything that the client may do.
type Scope uint8

// The permissions. Their bits are stored, so they never change.
const (
	ScopeEventsRead Scope = 1 << iota
	ScopeResourcesRead
	ScopeResourcesWrite
	ScopeWebhooksRead
	ScopeWebhooksWrite
	scopeEnd

	ScopeUnstated Scope = 0
	scopeAll            = scopeEnd - 1
)

var scopeNames = [...]string{"events:read", "resources:read", "resources:write", "webhooks:read", "webhooks:write"}

// ScopeNames lists the names of all permissions, in their order.
func ScopeNames() []string { return append([]string(nil), scopeNames[:]...) }

// ParseScope reads a space-separated list (RFC 6749 §3.3), ignoring order and
// duplicates. It returns false for bad syntax or an unknown name; an empty text is
// ScopeUnstated.
func ParseScope(text string) (Scope, bool) {
	if text == "" {
		return ScopeUnstated, true
	}
	var scope Scope
	for name := range strings.SplitSeq(text, " ") {
		bit, ok := scopeNamed(name)
		if !ok {
			return 0, false
		}
		scope |= bit
	}
	return scope, true
}

func scopeNamed(name string) (Scope, bool) {
	for i, known := range scopeNames {
		if name == known {
			return 1 << i, true
		}
	}
	return 0, false
}

// String returns the names in s, separated by spaces; "" for ScopeUnstated.
func (s Scope) String() string { return strings.Join(s.Names(), " ") }

// Names lists the permissions in s.
func (s Scope) Names() []string {
	var names []string
	for i, name := range scopeNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Effective returns the permissions that s gives: its own, or all if unstated.
func (s Scope) Effective() Scope {
	if s == ScopeUnstated {
		return scopeAll
	}
	return s
}

// Covers reports whether s gives every permission that other gives.
func (s Scope) Covers(other Scope) bool {
	return other.Effective()&^s.Effective() == 0
}
