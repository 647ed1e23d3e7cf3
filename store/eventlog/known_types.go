package eventlog

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"sync"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/spelling"
)

// knownType is the summary of one event type in an account's log.
type knownType struct {
	count uint64
	last  record.Position
}

// readKnownType returns the zero knownType for a type without events.
func readKnownType(r kv.Reader, owner, typ string) (knownType, error) {
	v, err := r.Get(record.KnownTypesKey(owner).Str(typ))
	if record.IsAbsent(err) {
		return knownType{}, nil
	}
	if err != nil {
		return knownType{}, err
	}
	return decodeKnownType(v)
}

func decodeKnownType(v []byte) (knownType, error) {
	d := record.NewDecoder("known type", knownTypeRecord, v)
	k := knownType{count: d.Uint(), last: d.Position()}
	return k, d.Err // the rest is for decodeTypeCounts
}

// anyType is the pattern that matches every type.
const anyType = "*"

// IsTypePattern reports whether text is a pattern: `customer.*`, `*.created` or `*`.
func IsTypePattern(text string) bool {
	kind, action, parted := strings.Cut(text, ".")
	return text == anyType || parted && (kind == "*" && IsAction(action) || action == "*" && IsKind(kind))
}

// matchesType reports whether a pattern or type matches typ.
func matchesType(pattern, typ string) bool {
	if strings.IndexByte(pattern, '*') < 0 {
		return pattern == typ
	}
	kind, action, _ := strings.Cut(pattern, ".")
	hasKind, hasAction, _ := strings.Cut(typ, ".")
	return pattern == anyType || (kind == "*" || kind == hasKind) && (action == "*" || action == hasAction)
}

// wantedTypes are the types that a page selects.
type wantedTypes struct {
	all      bool     // every type
	most     bool     // so many events that skipping the others is cheaper
	lookedUp bool     // types without events are left out and noted
	names    []string // sorted; types that may have a row within the bounds
	set      map[string]struct{}
	patterns []string // used instead of names when the account has too many types
}

// isSearched reports whether the wanted types are too many to merge, so that the log
// itself must be searched.
func (w *wantedTypes) isSearched() bool { return w.patterns != nil || len(w.names) > mergedMax }

// index builds the set of names.
func (w *wantedTypes) index() {
	w.set = make(map[string]struct{}, len(w.names))
	for _, name := range w.names {
		w.set[name] = struct{}{}
	}
}

// knownTypesFew is up to how many types are looked up singly, and only if they have no
// row. For more, all known types are read.
const knownTypesFew = 4

// wantedTypes expands the filter's types and notes those that match nothing.
func (l *query) wantedTypes() (wantedTypes, error) {
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
	switch {
	case types.tooMany && named:
		names, err := l.lookUp(asked)
		return wantedTypes{names: names, lookedUp: true}, err
	case types.tooMany:
		l.searched = true
		return wantedTypes{patterns: asked, lookedUp: true}, nil
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

// choose decides how to read the matching types.
func (l *query) choose(types *accountTypes, matches []bool) wantedTypes {
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

// hasType reports whether any event has the type, and notes it otherwise.
func (l *query) hasType(typ string) bool {
	had, err := l.lookUp([]string{typ})
	if err != nil {
		l.err = err
	}
	return len(had) > 0
}

// lookUp returns the types that the account has and notes the others.
func (l *query) lookUp(names []string) (had []string, err error) {
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

// accountTypes are all event types of an account at one version of its log.
type accountTypes struct {
	version Version
	total   uint64      // events
	names   []string    // sorted
	known   []knownType // for each name
	tooMany bool        // more than KnownTypesMax; the other fields are empty
}

// recentTypes caches the types of accounts. Reading them takes longer than a page,
// because the engine must skip the overwritten versions of each type, one for every
// new event. An entry is valid for one version of the log.
type recentTypes struct {
	mu   sync.Mutex
	kept map[string]*accountTypes // by owner
}

// KnownTypesMax bounds the types read for one page. If an account has more, types
// given by name are looked up singly, and wildcards search the log.
const KnownTypesMax = 1_000

const (
	recentAccountsMax = 64
	recentTypesMax    = 256 // types of an account; with more nothing is cached
	// recentKept is how far the head may advance before cached types are too old for
	// an estimate.
	recentKept = 10_000 // milliseconds
)

func (t *recentTypes) find(owner string) *accountTypes {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept[owner]
}

// keep caches types, and evicts an arbitrary account when the cache is full.
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

// accountTypes returns the account's types, or the fact that they are too many. When
// all asked types are given by name and known, slightly old types will do: new events
// remove no type, and the counts only serve an estimate.
func (l *query) accountTypes(asked []string, named bool) (*accountTypes, error) {
	version := l.version()
	kept := l.recent.find(l.owner)
	if kept != nil && (kept.version == version || kept.isJustBefore(version) && (kept.tooMany || named && kept.hasAll(asked))) {
		return kept, nil
	}
	types := &accountTypes{version: version}
	read := 0
	for name, v := range l.knownTypes(KnownTypesMax + 1) {
		if read++; read > KnownTypesMax {
			types = &accountTypes{version: version, tooMany: true}
			break
		}
		known, err := decodeKnownType(v)
		if err != nil {
			return nil, err
		}
		if known.count == 0 {
			continue // all its events were purged
		}
		types.total += known.count
		types.names = append(types.names, name)
		types.known = append(types.known, known)
	}
	l.fresh = types
	return types, nil
}

// isJustBefore reports whether only new events, within a short time, separate a from
// version v.
func (a *accountTypes) isJustBefore(v Version) bool {
	return a.version.Generation == v.Generation && a.version.Head.Compare(v.Head) <= 0 && v.Head.Millis()-a.version.Head.Millis() <= recentKept
}

func (a *accountTypes) hasAll(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { _, has := slices.BinarySearch(a.names, name); return !has })
}

// knownTypes yields up to limit of the account's types, by name, with their records.
func (l *query) knownTypes(limit int) iter.Seq2[string, []byte] {
	prefix := record.KnownTypesKey(l.owner)
	all := prefix.All()
	all.Limit = limit
	return func(yield func(string, []byte) bool) {
		for k, v := range l.r.Scan(all) {
			name, _ := record.CutString(k[len(prefix):])
			if !yield(name, v) {
				return
			}
		}
	}
}

const (
	nearestAmong = 1000 // types searched for the nearest
	unseenMax    = 5    // notices on one page
)

// notices reports types without events. Asking for one is no error, since it may be
// recorded later, but it is probably a typing error.
func (l *query) notices() []UnseenType {
	var unseen []UnseenType
	for _, typ := range l.unseen[:min(len(l.unseen), unseenMax)] {
		near, found := spelling.Nearest(typ, l.candidates(typ))
		if !found {
			near = meantInCatalogue(typ)
		}
		unseen = append(unseen, UnseenType{Type: typ, Nearest: near})
	}
	return unseen
}

// candidates yields what the caller may have meant by a type: a known type, or for a
// pattern, the pattern of a known type.
func (l *query) candidates(typ string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for name := range l.knownTypes(nearestAmong) {
			if !yield(likePattern(typ, name)) {
				return
			}
		}
	}
}
