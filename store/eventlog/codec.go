package eventlog

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// An event is stored as a version byte and the JSON that callers get. It is encoded
// once, so a page is an envelope around copied bytes.

const (
	eventRecord     = 1
	eventHeadRecord = 2
	knownTypeRecord = 1

	// eventSizeMax is the size of an event's JSON in bytes. In a frame of a stream, with
	// the lines for its id and name, it stays below 64 KiB, which is the longest line that
	// Go's bufio.Scanner reads and the buffer of other readers.
	eventSizeMax = 64<<10 - frameSizeMax
	// frameSizeMax bounds what a frame adds: "id: " and a position, "event: " and a type,
	// "data: " and four line ends.
	frameSizeMax = 256
)

// NewEvent is an event to record. Its texts are valid UTF-8.
type NewEvent struct {
	Owner    string
	Resource string
	Source   string
	Location string
	Type     string
	Object   snapshot.Value // the snapshot after the change
	Previous snapshot.Value // an object with the replaced values, or null
}

// draft is an encoded event without a position. Encoding is the expensive part and
// happens before the transaction.
type draft struct {
	owner, resource, typ string
	// rest is the JSON between the id and the digits of createdAt.
	rest []byte
}

const (
	eventOpening = `{"id":"`
	eventEnding  = `},"createdAt":`
	// eventIDSizeMax and createdAtSizeMax bound what the id and createdAt add to a
	// draft.
	eventIDSizeMax   = 64
	createdAtSizeMax = 11
)

// newDraft encodes e with its encoded snapshot. Errors: *snapshot.Error with TooLarge.
func newDraft(e *NewEvent, object []byte) (*draft, error) {
	b, _, err := appendDraft(make([]byte, 0, len(object)+512), e, object)
	if err != nil {
		return nil, err
	}
	return &draft{owner: e.Owner, resource: e.Resource, typ: e.Type, rest: b}, nil
}

// appendDraft appends the rest of a draft and returns the offset of its snapshot.
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
	if e.Previous.Kind() == snapshot.Object {
		b = e.Previous.Append(append(b, `,"previousAttributes":`...))
	}
	b = append(b, eventEnding...)
	if size := len(eventOpening) + eventIDSizeMax + len(b) - before + createdAtSizeMax + 1; size > eventSizeMax {
		return nil, 0, &snapshot.Error{Fault: snapshot.TooLarge, Reason: fmt.Sprintf("the event of this change would have %d bytes, more than the limit of %d", size, eventSizeMax)}
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

// wireOf returns the JSON of a stored event. It checks only both ends; the engine's
// checksum covers the rest.
func wireOf(v []byte) ([]byte, error) {
	if len(v) == 0 || v[0] != eventRecord {
		return nil, fmt.Errorf("%w: event record: unknown version", kv.ErrCorrupt)
	}
	wire, closed := bytes.CutSuffix(v[1:], []byte("}"))
	number := len(wire) // the offset of createdAt's digits
	for number > 0 && wire[number-1]-'0' <= 9 {
		number--
	}
	digits := len(wire) - number
	if !closed || digits == 0 || digits > createdAtSizeMax || !bytes.HasPrefix(wire, []byte(eventOpening)) || !bytes.HasSuffix(wire[:number], []byte(eventEnding)) {
		return nil, fmt.Errorf("%w: event record: not an event", kv.ErrCorrupt)
	}
	return v[1:], nil
}

// typeKey precedes the value of type, and its first occurrence is the right one:
// quotation marks within earlier texts are escaped, so it cannot occur in them.
var typeKey = []byte(`","type":"`)

// typeOf returns the type in an event's stored value.
func typeOf(v []byte) ([]byte, error) {
	wire, err := wireOf(v)
	if err != nil {
		return nil, err
	}
	if _, rest, found := bytes.Cut(wire, typeKey); found {
		if end := bytes.IndexByte(rest, '"'); end >= 0 { // types need no escape
			return rest[:end], nil
		}
	}
	return nil, fmt.Errorf("%w: event record: no type", kv.ErrCorrupt)
}

// cutText returns the next JSON string, still escaped, and what follows it.
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
	return nil, nil, fmt.Errorf("%w: event record: unterminated string", kv.ErrCorrupt)
}

// Head is the summary of an account's log. The zero Head is that of an empty log.
type Head struct {
	last record.Position // of the newest event
	// removed is the greatest position that retention has removed, or zero. A reader
	// that has read up to it has missed nothing.
	removed record.Position
	// generation counts the changes below the head that last does not show: imported
	// history, and events removed by retention or a purge. See headToExtend for the first.
	generation uint64
	// recorded counts the events in the newest segment.
	recorded uint64
	Segments Segments
}

const (
	metaRecord     = 1
	erasedAccounts = "erased" // the record that counts the accounts that were erased
	erasedShift    = 32       // far more changes than a log has
)

// CountErased notes within tx that an account was erased.
func CountErased(tx kv.Txn) error {
	n, err := readErased(tx)
	if err != nil {
		return err
	}
	return tx.Set(record.MetaKey(erasedAccounts), record.NewEncoder(metaRecord).Uint(n+1).B, time.Time{})
}

func readErased(r kv.Reader) (uint64, error) {
	v, err := r.Get(record.MetaKey(erasedAccounts))
	if record.IsAbsent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	d := record.NewDecoder("count of erased accounts", metaRecord, v)
	n := d.Uint()
	return n, d.Done()
}

// headToExtend is [ReadHead] for a transaction that records. Positions of an import are
// derived from its lines, so the log of an account that was erased and refilled could have a
// version that the erased one had, for which a cache still holds the erased events.
// Therefore the generations of a new log begin above those of all logs before it.
func headToExtend(tx kv.Txn, owner string) (Head, error) {
	h, err := ReadHead(tx, owner)
	if err != nil || h.last != (record.Position{}) {
		return h, err
	}
	erased, err := readErased(tx)
	h.generation = erased << erasedShift
	return h, err
}

// ReadHead returns the head of an account's log, or the zero Head if nothing was recorded.
func ReadHead(r kv.Reader, owner string) (Head, error) {
	v, err := r.Get(record.EventHeadKey(owner))
	if record.IsAbsent(err) {
		return Head{}, nil
	}
	if err != nil {
		return Head{}, err
	}
	return decodeEventHead(v)
}

func writeEventHead(tx kv.Txn, owner string, h Head) error {
	return tx.Set(record.EventHeadKey(owner), encodeEventHead(h), time.Time{})
}

func encodeEventHead(h Head) []byte {
	e := record.NewEncoder(eventHeadRecord)
	e.Position(h.last)
	e.Position(h.removed)
	e.Uint(h.generation)
	e.Uint(h.recorded)
	before := Segment(0)
	for _, sg := range h.Segments {
		e.Uint(uint64(sg - before))
		before = sg
	}
	e.Uint(0)
	return e.B
}

func decodeEventHead(v []byte) (Head, error) {
	d := record.NewDecoder("event head", eventHeadRecord, v)
	h := Head{last: d.Position(), removed: d.Position(), generation: d.Uint(), recorded: d.Uint()}
	before := Segment(0)
	for more := d.Uint(); more > 0; more = d.Uint() {
		before += Segment(more)
		if more > record.PositionMillisMax || before > record.PositionMillisMax {
			d.Fail("has a segment past the end of time")
			break
		}
		h.Segments = append(h.Segments, before)
	}
	if before > Segment(h.last.Millis()) {
		d.Fail("has a segment behind its last event")
	}
	return h, d.Done()
}

// foreignRecord is the value under an imported id: the event's position.
const foreignRecord = 1

func encodeForeign(p record.Position) []byte {
	return record.NewEncoder(foreignRecord).Position(p).B
}

// readForeign returns the position of the event with an imported id. Errors:
// kv.ErrNotFound.
func readForeign(r kv.Reader, owner, id string) (record.Position, error) {
	v, err := r.Get(record.EventForeignKey(owner, id))
	if err != nil {
		return record.Position{}, err
	}
	d := record.NewDecoder("event id", foreignRecord, v)
	p := d.Position()
	return p, d.Done()
}
