package store

import (
	"math"
	"strings"

	"tollhouse/store/record"
)

// Scope is a set of permissions. The zero Scope, ScopeUnstated, is that of a grant
// without a requested scope: null in JSON, and all data scopes that the client may have.
type Scope uint32

// The permissions. Their bits are stored, so they never change.
const (
	ScopeEventsRead Scope = 1 << iota
	ScopeResourcesRead
	ScopeResourcesWrite
	ScopeWebhooksRead
	ScopeWebhooksWrite

	// Those of platform clients alone.
	ScopeAccountsRead
	ScopeUsersRead
	ScopeClientsRead
	ScopeTokensRead
	ScopeAccountsWrite
	ScopeAccountsAct
	ScopeAccountsErase
	ScopeUsersWrite
	ScopeUsersRecover
	ScopeClientsWrite
	ScopeTokensRevoke
	ScopeAuditRead
	scopeEnd

	ScopeUnstated Scope = 0
	// ScopeData is what a user can consent to, and what ScopeUnstated gives: no scope that is
	// added later belongs to it.
	ScopeData = ScopeAccountsRead - 1
	// ScopePlatform is what only a platform client can have.
	ScopePlatform = scopeEnd - ScopeAccountsRead
)

var scopeNames = [...]string{
	"events:read", "resources:read", "resources:write", "webhooks:read", "webhooks:write",
	"accounts:read", "users:read", "clients:read", "tokens:read", "accounts:write", "accounts:act", "accounts:erase",
	"users:write", "users:recover", "clients:write", "tokens:revoke", "audit:read",
}

// ScopeNames lists the names of the data scopes, in their order.
func ScopeNames() []string { return ScopeData.Names() }

// PlatformScopeNames lists the names of the scopes that only platform clients can have.
func PlatformScopeNames() []string { return ScopePlatform.Names() }

// ParseScope reads a space-separated list (RFC 6749 §3.3), ignoring order, duplicates
// and further spaces, which clients leave when they join names. It returns false for an
// unknown name; a text without names is ScopeUnstated.
func ParseScope(text string) (Scope, bool) {
	var scope Scope
	for name := range strings.SplitSeq(text, " ") {
		if name == "" {
			continue
		}
		bit, ok := scopeNamed(name)
		if !ok {
			return 0, false
		}
		scope |= bit
	}
	return scope, true
}

// UnknownScope returns the first name in a list that is no permission, or "".
func UnknownScope(text string) string {
	for name := range strings.SplitSeq(text, " ") {
		if _, ok := scopeNamed(name); !ok && name != "" {
			return name
		}
	}
	return ""
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

// Effective returns the permissions that s gives: its own, or the data scopes if unstated.
func (s Scope) Effective() Scope {
	if s == ScopeUnstated {
		return ScopeData
	}
	return s
}

// Beyond returns the permissions that s gives and other does not.
func (s Scope) Beyond(other Scope) Scope { return s.Effective() &^ other.Effective() }

// Covers reports whether s gives every permission that other gives.
func (s Scope) Covers(other Scope) bool {
	return other.Beyond(s) == 0
}

func decodeScope(d *record.Decoder) Scope {
	n := d.Uint()
	if n > math.MaxUint32 {
		d.Fail("has a scope that cannot be")
	}
	return Scope(n)
}

// ScopeError is ErrScope with what it is about.
type ScopeError struct {
	// Beyond is what exceeds the grant, or the client's own scope.
	Beyond Scope
	// Repeats, if Beyond is empty, is the scope of the refresh that this one repeats.
	Repeats Scope
}

func (e *ScopeError) Error() string {
	if e.Beyond == 0 {
		return "scope is not that of the first refresh"
	}
	return "scope " + e.Beyond.String() + " is not covered by the grant"
}

func (e *ScopeError) Unwrap() error { return record.ErrScope }
