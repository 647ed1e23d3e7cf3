package dev

import "strings"

// Pattern matches paths: * stands for one segment or a part of one, and /** at the end
// for any rest. The empty Pattern matches every path.
type Pattern string

const anyRest = "/**"

// HasWildcard reports whether the pattern may match several paths.
func (p Pattern) HasWildcard() bool { return strings.Contains(string(p), "*") }

// Matches reports whether the pattern matches the path.
func (p Pattern) Matches(path string) bool {
	pattern := string(p)
	if pattern == "" || pattern == path {
		return true
	}
	if !p.HasWildcard() {
		return false
	}
	start, any := strings.CutSuffix(pattern, anyRest)
	for {
		segment, rest, more := strings.Cut(start, "/")
		at, pathRest, pathMore := strings.Cut(path, "/")
		if !matchesSegment(segment, at) {
			return false
		}
		if !more {
			return any && pathMore || !any && !pathMore
		}
		if !pathMore {
			return false
		}
		start, path = rest, pathRest
	}
}

// matchesSegment matches text without slashes.
func matchesSegment(pattern, text string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	if !ok {
		return false
	}
	for {
		part, more, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(text, part)
		}
		_, after, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text, rest = after, more
	}
}
