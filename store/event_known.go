package store

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"sync"
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
	all      bool     // every type there is
	most     bool     // so many of the account's events that it is cheaper to pass over the others
	lookedUp bool     // whether those that no event has are left out, and noted
	names    []string // sorted; those that may have a row within the bounds
	set      map[string]struct{}
}

// index makes the set of the names.
func (w *wantedTypes) index() {
	w.set = make(map[string]struct{}, len(w.names))
	for _, name := range w.names {
		w.set[name] = struct{}{}
	}
}

// knownTypesFew bounds the types that are looked up one by one, and only if they
// have no row; of more, the account's known types are read through.
const knownTypesFew = 4

// wantedTypes expands the filter's types. What matches nothing is noted.
func (l *eventList) wantedTypes() (wantedTypes, error) {
	asked := slices.Compact(slices.Sorted(slices.Values(l.filter.Types)))
	named := !slices.ContainsFunc(asked, IsTypePattern)
	switch {
	case len(asked) == 0, slices.Contains(asked, anyType):
		return wantedTypes{all: true}, nil
	case named && len(asked) <= knownTypesFew && len(l.filter.Resources) == 0:
		return wantedTypes{names: asked}, nil
	case named && len(asked) <= knownTypesFew:
		names, err := l.lookUp(asked)
		return wantedTypes{names: names, lookedUp: true}, err
	}
	types, err := l.accountTypes(asked, named)
	if err != nil {
		return wantedTypes{}, err
	}
	matches := make([]bool, len(types.names))
	for _, text := range asked {
		found := false
		if i, is := slices.BinarySearch(types.names, text); is {
			matches[i], found = true, true
		} else if IsTypePattern(text) {
			for i, name := range types.names {
				if matchesType(text, name) {
					matches[i], found = true, true
				}
			}
		}
		if !found {
			l.unseen = append(l.unseen, text)
		}
	}
	return l.choose(types, matches), nil
}

// choose says how to read the types that match.
func (l *eventList) choose(types *accountTypes, matches []bool) wantedTypes {
	wanted := wantedTypes{lookedUp: true}
	var matched uint64
	current := types.version == l.version()
	for i, known := range types.known {
		if !matches[i] {
			continue
		}
		matched += known.count
		if !current || bytes.Compare(known.last[:], l.lo) >= 0 {
			wanted.names = append(wanted.names, types.names[i])
		}
	}
	wanted.all = current && types.total > 0 && matched == types.total
	wanted.most = l.filterIsCheaper(matched, types.total, len(wanted.names))
	return wanted
}

// hasType reports whether any event is of a type, and notes it when none is.
func (l *eventList) hasType(typ string) bool {
	had, err := l.lookUp([]string{typ})
	if err != nil {
		l.err = err
	}
	return len(had) > 0
}

// lookUp returns those of the types that the account has, and notes the others.
func (l *eventList) lookUp(names []string) (had []string, err error) {
	for _, name := range names {
		known, err := readKnownType(l.r, l.owner, name)
		if err != nil {
			return nil, err
		}
		if known.count == 0 {
			l.unseen = append(l.unseen, name)
			continue
		}
		had = append(had, name)
	}
	return had, nil
}

// accountTypes are all types of an account's events, as they were at one version
// of its log.
type accountTypes struct {
	version LogVersion
	total   uint64      // events
	names   []string    // sorted
	known   []knownType // of each name
}

// recentTypes keeps the types of accounts that were asked for, since to read them
// takes longer than a page: the engine passes over all that was said of each type
// before, which is as much as there are new events. They are good for the version
// of the log at which they were read, which any change of theirs changes.
type recentTypes struct {
	mu   sync.Mutex
	kept map[string]*accountTypes // by owner
}

const (
	recentAccountsMax = 64
	recentTypesMax    = 256 // of an account; more are read for each page
	// recentKept is how far the head of a log may have moved on for its types to
	// be good for an estimate.
	recentKept = 10_000 // milliseconds
)

func (t *recentTypes) find(owner string) *accountTypes {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[owner]
}

// keep forgets an account, whichever, when there are too many.
func (t *recentTypes) keep(owner string, types *accountTypes) {
	if len(types.names) > recentTypesMax {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = make(map[string]*accountTypes)
	}
	if _, has := t.kept[owner]; !has && len(t.kept) >= recentAccountsMax {
		for other := range t.kept {
			delete(t.kept, other)
			break
		}
	}
	t.kept[owner] = types
}

// accountTypes returns the types that the account has. For types that are asked
// for by their names they may be of a moment ago, if it has them all: new events
// take no type away, and how many each type has is only for an estimate.
func (l *eventList) accountTypes(asked []string, named bool) (*accountTypes, error) {
	version := l.version()
	kept := l.recent.find(l.owner)
	if kept != nil && (kept.version == version || named && kept.isJustBefore(version) && kept.hasAll(asked)) {
		return kept, nil
	}
	types := &accountTypes{version: version}
	for name, v := range l.knownTypes() {
		known, err := decodeKnownType(v)
		if err != nil {
			return nil, err
		}
		if known.count == 0 {
			continue // all of them were purged
		}
		types.total += known.count
		types.names = append(types.names, name)
		types.known = append(types.known, known)
	}
	l.recent.keep(l.owner, types)
	return types, nil
}

// isJustBefore reports whether from the version of a to another there were but
// new events, and those within a short time.
func (a *accountTypes) isJustBefore(v LogVersion) bool {
	return a.version.Generation == v.Generation && a.version.Head.Compare(v.Head) <= 0 && v.Head.Millis()-a.version.Head.Millis() <= recentKept
}

func (a *accountTypes) hasAll(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { _, has := slices.BinarySearch(a.names, name); return !has })
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
