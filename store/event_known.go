package store

import (
	"iter"
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

const (
	knownTypesScanned = 1000 // types looked through for the nearest
	unseenMax         = 5    // notices given with one page
)

// known returns what the log says of a type, and notes one that no event has.
func (l *eventList) known(typ string) (knownType, error) {
	known, err := readKnownType(l.r, l.owner, typ)
	if err == nil && known.count == 0 {
		l.unseen = append(l.unseen, typ)
	}
	return known, err
}

// notices tells of types that no event has: any type may be recorded one day,
// so that to ask for it is no error, but most likely it is a slip.
func (l *eventList) notices() []UnseenType {
	var unseen []UnseenType
	for _, typ := range l.unseen[:min(len(l.unseen), unseenMax)] {
		near, _ := spelling.Nearest(typ, l.knownTypes())
		unseen = append(unseen, UnseenType{Type: typ, Nearest: near})
	}
	return unseen
}

// knownTypes yields the names of the types that the account's events have.
func (l *eventList) knownTypes() iter.Seq[string] {
	prefix := knownTypesKey(l.owner)
	r := prefix.all()
	r.KeysOnly, r.Limit = true, knownTypesScanned
	return func(yield func(string) bool) {
		for k := range l.r.Scan(r) {
			name, _ := cutString(k[len(prefix):])
			if !yield(name) {
				return
			}
		}
	}
}
