package eventlog

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/spelling"
)

// UnknownType is an event type that is neither in the catalogue nor in an account's
// log, and close to one that is.
type UnknownType struct {
	Type    string
	Nearest string
	Count   int // of the events of that type
}

// CheckTypes refuses types and patterns that look misspelled, in a log with strict
// types. Errors: *InvalidError, whose Field is type.
func (l *Log) CheckTypes(ctx context.Context, owner string, types ...string) error {
	if !l.strictTypes {
		return nil
	}
	for _, typ := range types {
		if err := l.refuseMisspelled(ctx, owner, typ); err != nil {
			return err
		}
	}
	return nil
}

// NearTypes returns those of the well-formed types and patterns that look misspelled, with
// what was probably meant.
func (l *Log) NearTypes(ctx context.Context, owner string, types []string) (near []UnseenType, err error) {
	for _, typ := range types {
		if !IsEventType(typ) && !IsTypePattern(typ) {
			continue
		}
		meant, err := l.meantBy(ctx, owner, typ)
		if err != nil {
			return nil, err
		}
		if meant != "" {
			near = append(near, UnseenType{Type: typ, Nearest: meant})
		}
	}
	return near, nil
}

// HasStrictTypes reports whether types that look misspelled are refused.
func (l *Log) HasStrictTypes() bool { return l.strictTypes }

func (l *Log) refuseMisspelled(ctx context.Context, owner, typ string) error {
	near, err := l.meantBy(ctx, owner, typ)
	if err != nil || near == "" {
		return err
	}
	return misspelled("type", typ, near)
}

func misspelled(param, typ, near string) error {
	return record.Invalid(param, "", "the event type %s is unknown; did you mean %s?", typ, near)
}

// checkChange is CheckTypes of the event that a change records. Without an action of
// the caller's own, only the kind can be misspelled.
func (l *Log) checkChange(ctx context.Context, c ResourceChange) error {
	if !l.strictTypes {
		return nil
	}
	typ, part := c.Kind+".*", "kind"
	if c.Action != "" {
		typ, part = c.Kind+"."+c.Action, "action"
	}
	near, err := l.meantBy(ctx, c.Owner, typ)
	if err != nil || near == "" {
		return err
	}
	return misspelled(part, typ, near)
}

// importTypesMax bounds the types that an import remembers; others are looked up for
// every line.
const importTypesMax = 10_000

// checkType counts a type that looks misspelled, or rejects it.
func (im *Importer) checkType(ctx context.Context, typ string) error {
	u, seen := im.types[typ]
	if !seen {
		near, err := im.log.meantBy(ctx, im.account, typ)
		if err != nil {
			return err
		}
		typ = strings.Clone(typ) // a substring of the line, which would stay in memory
		if near != "" {
			u = &UnknownType{Type: typ, Nearest: near}
		}
		if len(im.types) < importTypesMax {
			im.types[typ] = u
		}
	}
	switch {
	case u == nil:
		return nil
	case im.options.StrictTypes:
		return misspelled("type", u.Type, u.Nearest)
	}
	if u.Count++; u.Count == 1 && len(im.unknown) < UnknownTypesMax {
		im.unknown = append(im.unknown, u)
	}
	return nil
}

// meantBy returns what the caller probably meant by a type or pattern, or "" for one
// that is known, or that resembles none.
func (l *Log) meantBy(ctx context.Context, owner, typ string) (near string, err error) {
	err = l.db.View(ctx, func(r kv.Reader) error {
		near = ""
		for name := range namesFor(r, owner, typ) {
			if name == typ || typ == anyType {
				near = ""
				return nil
			}
			near = nearerType(typ, near, name)
		}
		if near == "" {
			return nil
		}
		// An account may have more types than were read.
		known, err := readKnownType(r, owner, typ)
		if err == nil && known.count > 0 {
			near = ""
		}
		return err
	})
	return near, err
}

// namesFor yields the types of the catalogue and of the account, or for a pattern,
// their patterns.
func namesFor(r kv.Reader, owner, typ string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, known := range catalogue {
			if !yield(likePattern(typ, known.Name)) {
				return
			}
		}
		prefix := record.KnownTypesKey(owner)
		all := prefix.All()
		all.Limit = nearestAmong
		for k, v := range r.Scan(all) {
			name, _ := record.CutString(k[len(prefix):])
			known, err := decodeKnownType(v)
			if err == nil && known.count > 0 && !yield(likePattern(typ, name)) {
				return
			}
		}
	}
}

// meantInCatalogue is meantBy of the catalogue alone.
func meantInCatalogue(typ string) (near string) {
	for _, known := range catalogue {
		name := likePattern(typ, known.Name)
		if name == typ {
			return ""
		}
		near = nearerType(typ, near, name)
	}
	return near
}

// likePattern puts the wildcard of typ into name.
func likePattern(typ, name string) string {
	kind, action, _ := strings.Cut(name, ".")
	switch {
	case strings.HasPrefix(typ, "*."):
		return "*." + action
	case strings.HasSuffix(typ, ".*"):
		return kind + ".*"
	}
	return name
}

// nearerType returns whichever of two known types is closer to typ, "" for none. Both
// halves must be near by themselves: order.created does not resemble user.created.
func nearerType(typ, best, name string) string {
	kind, action, _ := strings.Cut(typ, ".")
	hasKind, hasAction, _ := strings.Cut(name, ".")
	if !isNear(kind, hasKind) || !isNear(action, hasAction) {
		return best
	}
	if nearest, ok := spelling.Nearest(typ, slices.Values([]string{best, name})); ok || best != "" {
		return cmp.Or(nearest, best)
	}
	return name
}

func isNear(word, known string) bool {
	if word == known {
		return true
	}
	_, near := spelling.Nearest(word, slices.Values([]string{known}))
	return near
}
