package store

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/snapshot"
)

// An event is stored as a version byte and the JSON that callers get, encoded
// once for all times it will be read: a page is an envelope and copied bytes.

const (
	eventRecord     = 1
	eventHeadRecord = 2
	knownTypeRecord = 1

	// eventSizeMax is the length of an event on the wire, in bytes.
	eventSizeMax = 64 << 10
)

// NewEvent is an event that is about to be recorded. Its texts are valid UTF-8.
type NewEvent struct {
	Owner    string
	Resource string
	Source   string
	Location string
	Type     string
	Object   snapshot.Value // the snapshot after the change
	Previous snapshot.Value // an object of what the change replaced, or null
}

// draft is an event that lacks only its place in the log. All that is dear is
// done in making it, before the transaction that records it.
type draft struct {
	owner, resource, typ string
	// rest is the wire form between the id and the number of createdAt.
	rest []byte
}

const (
	eventOpening = `{"id":"`
	eventEnding  = `},"createdAt":`
	// eventIDSizeMax and createdAtSizeMax are what place adds to a draft.
	eventIDSizeMax   = 64
	createdAtSizeMax = 11
)

// newDraft encodes e, whose snapshot is encoded already. Errors: *snapshot.Error
// with TooLarge.
func newDraft(e *NewEvent, object []byte) (*draft, error) {
	b, _, err := appendDraft(make([]byte, 0, len(object)+512), e, object)
	if err != nil {
		return nil, err
	}
	return &draft{owner: e.Owner, resource: e.Resource, typ: e.Type, rest: b}, nil
}

// appendDraft appends the rest of a draft, and returns where its snapshot begins
// too.
func appendDraft(b []byte, e *NewEvent, object []byte) (rest []byte, snapshotAt int, err error) {
	before := len(b)
	for _, member := range [...]struct{ name, value string }{
		{`","owner":`, e.Owner}, {`,"resource":`, e.Resource}, {`,"source":`, e.Source},
		{`,"location":`, e.Location}, {`,"type":`, e.Type},
	} {
		b = snapshot.AppendString(append(b, member.name...), member.value)
	}
	b = append(b, `,"eventData":{"object":`...)
	snapshotAt = len(b)
	b = append(b, object...)
	if e.Previous.Sort() == snapshot.Object {
		b = e.Previous.Append(append(b, `,"previousAttributes":`...))
	}
	b = append(b, eventEnding...)
	if size := len(eventOpening) + eventIDSizeMax + len(b) - before + createdAtSizeMax + 1; size > eventSizeMax {
		return nil, 0, &snapshot.Error{Fault: snapshot.TooLarge, Reason: fmt.Sprintf("the event of this change would have %d bytes, more than %d", size, eventSizeMax)}
	}
	return b, snapshotAt, nil
}

// record returns the stored value of the event with that id and time.
func (d *draft) record(id string, createdAt int64) []byte {
	b := make([]byte, 0, 1+len(eventOpening)+len(id)+len(d.rest)+createdAtSizeMax+1)
	return d.appendWire(append(b, eventRecord), id, createdAt)
}

func (d *draft) appendWire(b []byte, id string, createdAt int64) []byte {
	b = append(append(b, eventOpening...), id...)
	b = strconv.AppendInt(append(b, d.rest...), createdAt, 10)
	return append(b, '}')
}

// wireOf returns the JSON in an event's stored value. It looks at both ends: the
// engine's checksum vouches for what lies between.
func wireOf(v []byte) ([]byte, error) {
	if len(v) == 0 || v[0] != eventRecord {
		return nil, fmt.Errorf("%w: event record: its version is unknown", kv.ErrCorrupt)
	}
	wire, closed := bytes.CutSuffix(v[1:], []byte("}"))
	number := len(wire) // where createdAt's begins
	for number > 0 && wire[number-1]-'0' <= 9 {
		number--
	}
	digits := len(wire) - number
	if !closed || digits == 0 || digits > createdAtSizeMax || !bytes.HasPrefix(wire, []byte(eventOpening)) || !bytes.HasSuffix(wire[:number], []byte(eventEnding)) {
		return nil, fmt.Errorf("%w: event record: it holds no event", kv.ErrCorrupt)
	}
	return v[1:], nil
}

// typeMark stands before the value of type and nowhere before that: within the
// texts that come first, a quotation mark is escaped, so that the second one of
// the three would end its text, and no name follows the end of a text.
var typeMark = []byte(`","type":"`)

// typeOf returns the type in an event's stored value.
func typeOf(v []byte) ([]byte, error) {
	wire, err := wireOf(v)
	if err != nil {
		return nil, err
	}
	if _, rest, found := bytes.Cut(wire, typeMark); found {
		if end := bytes.IndexByte(rest, '"'); end >= 0 { // no type needs an escape
			return rest[:end], nil
		}
	}
	return nil, fmt.Errorf("%w: event record: it has no type", kv.ErrCorrupt)
}

// cutText returns what stands in the next quotation marks, still escaped, and
// what follows them.
func cutText(wire []byte) (text, rest []byte, err error) {
	_, rest, opened := bytes.Cut(wire, []byte{'"'})
	for end := 0; opened; end++ {
		at := bytes.IndexByte(rest[end:], '"')
		if at < 0 {
			break
		}
		end += at
		escapes := end - len(bytes.TrimRight(rest[:end], `\`))
		if escapes%2 == 0 {
			return rest[:end], rest[end+1:], nil
		}
	}
	return nil, nil, fmt.Errorf("%w: event record: a text has no end", kv.ErrCorrupt)
}

// eventHead is what an account's log says of itself. The zero head is that of
// an empty log.
type eventHead struct {
	last Position // of the newest event
	// removed is the greatest position that retention has removed an event
	// from; zero while it has removed none. Whoever has read that far has missed
	// nothing.
	removed Position
	// generation counts the changes below the head, which a reader cannot tell
	// from last: history that is imported, and what retention or a purge removes.
	generation uint64
	// recorded counts what was recorded into the newest part.
	recorded uint64
	parts    logParts
}

func readEventHead(r kv.Reader, owner string) (eventHead, error) {
	v, err := r.Get(eventHeadKey(owner))
	if isAbsent(err) {
		return eventHead{}, nil
	}
	if err != nil {
		return eventHead{}, err
	}
	return decodeEventHead(v)
}

func writeEventHead(tx kv.Txn, owner string, h eventHead) error {
	return tx.Set(eventHeadKey(owner), encodeEventHead(h), time.Time{})
}

func encodeEventHead(h eventHead) []byte {
	e := newEncoder(eventHeadRecord)
	e.position(h.last)
	e.position(h.removed)
	e.uint(h.generation)
	e.uint(h.recorded)
	before := part(0)
	for _, pt := range h.parts {
		e.uint(uint64(pt - before))
		before = pt
	}
	e.uint(0)
	return e.b
}

func decodeEventHead(v []byte) (eventHead, error) {
	d := newDecoder("event head", eventHeadRecord, v)
	h := eventHead{last: d.position(), removed: d.position(), generation: d.uint(), recorded: d.uint()}
	before := part(0)
	for more := d.uint(); more > 0; more = d.uint() {
		before += part(more)
		if more > positionMillisMax || before > positionMillisMax {
			d.fail("has a part past the end of time")
			break
		}
		h.parts = append(h.parts, before)
	}
	if before > part(h.last.Millis()) {
		d.fail("has a part behind its last event")
	}
	return h, d.done()
}

// foreignRecord is the value under an imported id: the event's position.
const foreignRecord = 1

func encodeForeign(p Position) []byte {
	e := newEncoder(foreignRecord)
	e.position(p)
	return e.b
}

// readForeign returns where the event with an imported id lies. Errors:
// kv.ErrNotFound.
func readForeign(r kv.Reader, owner, id string) (Position, error) {
	v, err := r.Get(eventForeignKey(owner, id))
	if err != nil {
		return Position{}, err
	}
	d := newDecoder("event id", foreignRecord, v)
	p := d.position()
	return p, d.done()
}

// positionAt returns the position that ends a key.
func positionAt(k []byte) (p Position) {
	copy(p[:], k[len(k)-len(p):])
	return p
}
