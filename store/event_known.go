package store

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/spelling"
)

// knownType is what an account's log says of one type of event.
type knownType struct {
	count uint64
	last  Position
}

// readKnownType returns the zero knownType for a type that no event has.
func readKnownType(r kv.Reader, owner, typ string) (knownType, error) {
	v, err := r.Get(knownTypesKey(owner).str(typ))
	if isAbsent(err) {
		return knownType{}, nil
	}
	if err != nil {
		return knownType{}, err
	}
	return decodeKnownType(v)
}

func writeKnownType(tx kv.Txn, owner, typ string, k knownType) error {
	return tx.Set(knownTypesKey(owner).str(typ), encodeKnownType(k), time.Time{})
}

func encodeKnownType(k knownType) []byte {
	e := newEncoder(knownTypeRecord)
	e.uint(k.count)
	e.position(k.last)
	return e.b
}

func decodeKnownType(v []byte) (knownType, error) {
	d := newDecoder("known type", knownTypeRecord, v)
	k := knownType{count: d.uint(), last: d.position()}
	return k, d.done()
}

// anyType is the pattern of every type.
const anyType = "*"

// IsTypePattern reports whether text stands for several types: `customer.*`,
// `*.created` or `*`.
func IsTypePattern(text string) bool {
	kind, action, parted := strings.Cut(text, ".")
	return text == anyType || parted && (kind == "*" && IsAction(action) || action == "*" && IsKind(kind))
}

// matchesType reports whether a pattern, or a type itself, stands for typ.
func matchesType(pattern, typ string) bool {
	if strings.IndexByte(pattern, '*') < 0 {
		return pattern == typ
	}
	kind, action, _ := strings.Cut(pattern, ".")
	hasKind, hasAction, _ := strings.Cut(typ, ".")
	return pattern == anyType || (kind == "*" || kind == hasKind) && (action == "*" || action == hasAction)
}

// wantedTypes are the types of a page's rows.
type wantedTypes struct {
	all   bool     // every type there is
	most  bool     // so many of the account's events that it is cheaper to pass over the others
	names []string // sorted; those that may have a row within the bounds
}

// knownTypesFew bounds the types that are looked up one by one; of more, the
// account's known types are read through.
const knownTypesFew = 4

// wantedTypes expands the filter's types. A type that no event has, or that has
// none above the lower bound, is left out. What matches nothing is noted.
func (l *eventList) wantedTypes() (wantedTypes, error) {
	asked := l.filter.Types
	switch {
	case len(asked) == 0, slices.Contains(asked, anyType):
		return wantedTypes{all: true}, nil
	case len(asked) == 1 && !IsTypePattern(asked[0]):
		return wantedTypes{names: asked}, nil // an empty page will look whether it is known
	case len(asked) <= knownTypesFew && !slices.ContainsFunc(asked, IsTypePattern):
		return l.fewTypes(asked)
	}
	var wanted wantedTypes
	var total, matched uint64
	seen := make([]bool, len(asked))
	for typ, v := range l.knownTypes() {
		known, err := decodeKnownType(v)
		if err != nil {
			return wantedTypes{}, err
		}
		total += known.count
		matches := false
		for i, pattern := range asked {
			if matchesType(pattern, typ) {
				seen[i], matches = true, true
			}
		}
		if matches {
			matched += known.count
			wanted.add(typ, known, l.lo)
		}
	}
	for i, ok := range seen {
		if !ok {
			l.unseen = append(l.unseen, asked[i])
		}
	}
	wanted.all = total > 0 && matched == total
	wanted.most = l.filterIsCheaper(matched, total, len(wanted.names))
	return wanted, nil
}

// fewTypes looks types up one by one.
func (l *eventList) fewTypes(asked []string) (wantedTypes, error) {
	var wanted wantedTypes
	for _, typ := range slices.Compact(slices.Sorted(slices.Values(asked))) {
		known, err := readKnownType(l.r, l.owner, typ)
		if err != nil {
			return wantedTypes{}, err
		}
		if known.count == 0 {
			l.unseen = append(l.unseen, typ)
			continue
		}
		wanted.add(typ, known, l.lo)
	}
	return wanted, nil
}

func (w *wantedTypes) add(typ string, known knownType, lo []byte) {
	if bytes.Compare(known.last[:], lo) >= 0 {
		w.names = append(w.names, typ)
	}
}

// knownTypes yields the account's types, sorted by name, with their records.
func (l *eventList) knownTypes() iter.Seq2[string, []byte] {
	prefix := knownTypesKey(l.owner)
	return func(yield func(string, []byte) bool) {
		for k, v := range l.r.Scan(prefix.all()) {
			name, _ := cutString(k[len(prefix):])
			if !yield(name, v) {
				return
			}
		}
	}
}

const (
	nearestAmong = 1000 // types looked through for the nearest
	unseenMax    = 5    // notices given with one page
)

// notices tells of types that no event has: any type may be recorded one day,
// so that to ask for it is no error, but most likely it is a slip.
func (l *eventList) notices() []UnseenType {
	var unseen []UnseenType
	for _, typ := range l.unseen[:min(len(l.unseen), unseenMax)] {
		near, _ := spelling.Nearest(typ, l.candidates(typ))
		unseen = append(unseen, UnseenType{Type: typ, Nearest: near})
	}
	return unseen
}

// candidates yields what a type may have been meant to be: a known type, or,
// for a pattern, what it would be for a known type.
func (l *eventList) candidates(typ string) iter.Seq[string] {
	return func(yield func(string) bool) {
		looked := 0
		for name := range l.knownTypes() {
			kind, action, _ := strings.Cut(name, ".")
			switch {
			case strings.HasPrefix(typ, "*."):
				name = "*." + action
			case strings.HasSuffix(typ, ".*"):
				name = kind + ".*"
			}
			if looked++; looked > nearestAmong || !yield(name) {
				return
			}
		}
	}
}
