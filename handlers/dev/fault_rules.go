package dev

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// RulesMax is how many rules an instance has at most.
const RulesMax = 100

// ErrTooManyRules refuses a rule beyond [RulesMax].
var ErrTooManyRules = errors.New("there are as many rules as can be kept")

// Match says which requests a rule is for. Members that are nil match all.
type Match struct {
	Method    *string  `json:"method,omitempty"`
	Path      *Pattern `json:"path,omitempty"`
	ClientID  *string  `json:"client_id,omitempty"`
	GrantType *string  `json:"grant_type,omitempty"`
}

// Action is what a rule does to a request: one of Status, Drop, Truncate and Malformed,
// or Delay alone, or both.
type Action struct {
	Status     *int              `json:"status,omitempty"` // answered in place of the handler
	Body       json.RawMessage   `json:"body,omitempty"`
	Headers    map[string]string `json:"headers,omitempty"`
	RetryAfter *int              `json:"retry_after,omitempty"` // seconds
	Drop       *string           `json:"drop,omitempty"`        // DropRequest or DropAnswer
	Truncate   *int              `json:"truncate,omitempty"`    // bytes of the body that are sent
	Malformed  *bool             `json:"malformed,omitempty"`
	Delay      *Duration         `json:"delay,omitempty"`
}

// What Drop closes the connection in place of.
const (
	DropRequest = "request" // before the handler
	DropAnswer  = "answer"  // after it
)

// Ask is a rule to be made.
type Ask struct {
	Match Match
	Skip  int // of the matching requests, the first that pass
	Count int // of the next ones, how many are hit; 0 for all
	Do    Action
}

// Rule is a rule and what it has seen.
type Rule struct {
	ID   string
	Ask  Ask
	Seen int // matching requests that it was shown
	Hits int
}

// IsSpent reports whether the rule can hit no more requests.
func (r *Rule) IsSpent() bool { return r.Ask.Count > 0 && r.Hits >= r.Ask.Count }

// Request is what a rule can match. Names returns the client and the grant; it is called
// only when a rule compares them.
type Request struct {
	Method, Path string
	Names        func() (clientID, grantType string)
	// IsNamedOnly is set for paths, such as health checks, that only a rule for exactly
	// this path is for.
	IsNamedOnly bool
}

func (m *Match) matchesLine(r *Request) bool {
	switch {
	case m.Method != nil && *m.Method != r.Method:
		return false
	case r.Method == "OPTIONS" && m.Method == nil:
		// A browser shows a failed preflight as a network error.
		return false
	case m.Path == nil:
		return !r.IsNamedOnly
	case r.IsNamedOnly:
		return string(*m.Path) == r.Path
	}
	return m.Path.Matches(r.Path)
}

func (m *Match) comparesNames() bool { return m.ClientID != nil || m.GrantType != nil }

func (m *Match) matchesNames(client, grant string) bool {
	return (m.ClientID == nil || *m.ClientID == client) && (m.GrantType == nil || *m.GrantType == grant)
}

// Faults is an instance's list of rules. It is safe for concurrent use.
type Faults struct {
	mu    sync.Mutex
	rules []*Rule
	made  int
	count atomic.Int32 // of rules, read without the lock
}

// NewFaults returns a list without rules.
func NewFaults() *Faults { return &Faults{} }

// Add appends a rule. Errors: ErrTooManyRules.
func (f *Faults) Add(ask Ask) (Rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.rules) >= RulesMax {
		return Rule{}, ErrTooManyRules
	}
	f.made++
	r := &Rule{ID: "flt_" + strconv.Itoa(f.made), Ask: ask}
	f.rules = append(f.rules, r)
	f.count.Store(int32(len(f.rules)))
	return *r, nil
}

// List returns all rules in the order in which they were made.
func (f *Faults) List() []Rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	rules := make([]Rule, len(f.rules))
	for i, r := range f.rules {
		rules[i] = *r
	}
	return rules
}

// Find returns a rule.
func (f *Faults) Find(id string) (Rule, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.ID == id {
			return *r, true
		}
	}
	return Rule{}, false
}

// Remove removes a rule and reports whether there was one.
func (f *Faults) Remove(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.rules)
	f.rules = slices.DeleteFunc(f.rules, func(r *Rule) bool { return r.ID == id })
	f.count.Store(int32(len(f.rules)))
	return len(f.rules) < before
}

// Clear removes all rules. Later ones continue the numbering.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
	f.count.Store(0)
}

// CountLive returns how many rules can still hit a request.
func (f *Faults) CountLive() (count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if !r.IsSpent() {
			count++
		}
	}
	return count
}

// Hit returns the id and the action of the rule that hits a request. Rules see the
// request in the order in which they were made, until one hits it.
func (f *Faults) Hit(r Request) (id string, do Action, hit bool) {
	if f.count.Load() == 0 {
		return "", Action{}, false
	}
	client, grant := "", ""
	if f.wantsNames(&r) { // outside the lock, since it may read the body
		client, grant = r.Names()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, rule := range f.rules {
		if rule.IsSpent() || !rule.Ask.Match.matchesLine(&r) || !rule.Ask.Match.matchesNames(client, grant) {
			continue
		}
		if rule.Seen++; rule.Seen <= rule.Ask.Skip {
			continue
		}
		rule.Hits++
		return rule.ID, rule.Ask.Do, true
	}
	return "", Action{}, false
}

func (f *Faults) wantsNames(r *Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.rules, func(rule *Rule) bool {
		return !rule.IsSpent() && rule.Ask.Match.comparesNames() && rule.Ask.Match.matchesLine(r)
	})
}

// Wait returns the delay of the action.
func (a *Action) Wait() time.Duration {
	if a.Delay == nil {
		return 0
	}
	return time.Duration(*a.Delay)
}
