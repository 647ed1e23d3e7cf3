package store

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/store/snapshot"
	"tollhouse/store/spelling"
)

// lineDepthMax is how deep a line may be: a snapshot within an event.
const lineDepthMax = snapshot.DepthMax + 2

// aheadMax is how far the clock of another machine may be before ours.
const aheadMax = 5 * time.Second

// eventLine is an event as the specification writes it.
type eventLine struct {
	NewEvent
	ID        string
	CreatedAt int64
	given     uint8 // a bit for each of eventMembers
}

func (l *eventLine) has(member string) bool {
	return l.given&(1<<slices.Index(eventMembers, member)) != 0
}

var eventMembers = []string{"id", "owner", "resource", "source", "location", "type", "eventData", "createdAt"}

// parseEventLine reads one event, in a room, of which its snapshots are valid
// until the next. It checks the sort of every member and that there is no other;
// what the texts say is for the caller to check. Errors: *snapshot.Error,
// *InvalidError.
func parseEventLine(line []byte, room *snapshot.Room) (*eventLine, error) {
	if bytes.HasPrefix(line, []byte("\ufeff")) {
		return nil, &snapshot.Error{Fault: snapshot.Malformed, Reason: "the line begins with a byte order mark; save the file as UTF-8 without one"}
	}
	v, err := room.Parse(line, lineDepthMax)
	if err != nil {
		return nil, err
	}
	if v.Sort() != snapshot.Object {
		return nil, invalid("", "write one event a line", "the line holds %s, not an event", v.Sort())
	}
	l := &eventLine{}
	for _, m := range v.Members() {
		if err := l.take(m); err != nil {
			return nil, err
		}
		l.given |= 1 << slices.Index(eventMembers, m.Name)
	}
	for _, member := range [...]string{"type", "resource", "eventData"} {
		if !l.has(member) {
			return nil, invalid(member, "", "%s is missing", member)
		}
	}
	return l, nil
}

func (l *eventLine) take(m snapshot.Member) error {
	switch m.Name {
	case "createdAt":
		return l.takeCreatedAt(m.Value)
	case "eventData":
		return l.takeEventData(m.Value)
	}
	text := l.text(m.Name)
	if text == nil {
		return unknownMember(m.Name, "an event", eventMembers)
	}
	if m.Value.Sort() != snapshot.String {
		return invalid(m.Name, "", "%s must be a string, not %s", m.Name, m.Value.Sort())
	}
	*text = m.Value.Text()
	return nil
}

// text returns where the text of a member belongs, or nil when there is no such
// member.
func (l *eventLine) text(member string) *string {
	switch member {
	case "id":
		return &l.ID
	case "owner":
		return &l.Owner
	case "resource":
		return &l.Resource
	case "source":
		return &l.Source
	case "location":
		return &l.Location
	case "type":
		return &l.Type
	}
	return nil
}

func (l *eventLine) takeCreatedAt(v snapshot.Value) error {
	n, err := strconv.ParseInt(v.Text(), 10, 64)
	if v.Sort() != snapshot.Number || err != nil || n < 0 || v.Text() == "-0" {
		return invalid("createdAt", "give seconds since 1970, in UTC", "createdAt must be a whole number of seconds")
	}
	if n > CreatedAtMax {
		if n <= CreatedAtMax*1000 {
			return invalid("createdAt", "", "createdAt looks like milliseconds; in seconds it is %d", n/1000)
		}
		return invalid("createdAt", "give seconds since 1970, in UTC", "createdAt is larger than %d", int64(CreatedAtMax))
	}
	l.CreatedAt = n
	return nil
}

func (l *eventLine) takeEventData(v snapshot.Value) error {
	if v.Sort() != snapshot.Object {
		return invalid("eventData", "", "eventData must be an object, not %s", v.Sort())
	}
	members := []string{"object", "previousAttributes"}
	for _, m := range v.Members() {
		switch m.Name {
		case "object":
			l.Object = m.Value
		case "previousAttributes":
			if m.Value.Sort() != snapshot.Object {
				return invalid("eventData.previousAttributes", "leave it out when nothing was replaced", "eventData.previousAttributes must be an object, not %s", m.Value.Sort())
			}
			if len(m.Value.Members()) > 0 {
				l.Previous = m.Value
			}
		default:
			return unknownMember(m.Name, "eventData", members)
		}
	}
	return nil
}

func unknownMember(name, of string, known []string) error {
	e := &snapshot.Error{Fault: snapshot.UnknownField, Path: name, Reason: fmt.Sprintf("%.40q is not a member of %s", name, of)}
	if len(name) > labelSizeMax {
		e.Path = ""
	}
	if near, ok := spelling.Nearest(name, slices.Values(known)); ok {
		e.Reason += "; did you mean " + near + "?"
	}
	return e
}

// ParseNewEvent reads one event that is recorded now, for an account: neither an
// id nor a createdAt is its author's to choose. Errors: *snapshot.Error,
// *InvalidError.
func ParseNewEvent(body []byte, account string) (NewEvent, error) {
	e, err := parseEventLine(body, new(snapshot.Room))
	if err != nil {
		return NewEvent{}, err
	}
	for _, member := range []string{"id", "createdAt"} {
		if e.has(member) {
			return NewEvent{}, invalid(member, "to record history, import it", "%s is given by the server", member)
		}
	}
	if err := e.complete(account, "system"); err != nil {
		return NewEvent{}, err
	}
	return e.NewEvent, nil
}

// complete fills in what an event of the account may leave out.
func (l *eventLine) complete(account, location string) error {
	if !l.has("owner") {
		l.Owner = account
	}
	if l.Owner != account {
		return invalid("owner", "leave it out, or name that account", "owner is not the account %s", account)
	}
	if !l.has("source") {
		l.Source = "system"
	}
	if !l.has("location") {
		l.Location = location
	}
	return nil
}

// parse turns a line into what is committed.
func (im *Importer) parse(ctx context.Context, line []byte, l *importLine) error {
	if len(line) > ImportLineSizeMax {
		return &snapshot.Error{Fault: snapshot.TooLarge, Reason: fmt.Sprintf("the line has %d bytes, more than %d", len(line), ImportLineSizeMax)}
	}
	e, err := parseEventLine(line, &im.lineRoom)
	if err != nil {
		return err
	}
	if !e.has("createdAt") {
		return invalid("createdAt", "give seconds since 1970, in UTC", "createdAt is missing")
	}
	defer func() { im.places.took(e.CreatedAt, l.place) }()
	if err := im.checkLine(ctx, e); err != nil {
		return err
	}
	e.leaveLine()
	if err := im.draft(&e.NewEvent, l); err != nil {
		return err
	}
	var action string
	l.kind, action, _ = strings.Cut(e.Type, ".")
	l.createdAt, l.removes = e.CreatedAt, action == "deleted"
	if l.removes {
		l.snapshot = nil
	}
	return im.place(e, l)
}

// leaveLine copies the texts that outlive the line, which they would keep whole
// as parts of it: white space and all, far more than is counted for its batch.
func (l *eventLine) leaveLine() {
	texts := l.Type + l.Resource + l.ID
	l.Type, texts = texts[:len(l.Type)], texts[len(l.Type):]
	l.Resource, l.ID = texts[:len(l.Resource)], texts[len(l.Resource):]
}

// draft makes the draft of a line, in memory that it shares with those before.
func (im *Importer) draft(e *NewEvent, l *importLine) error {
	object, err := appendSnapshot(im.object[:0], e.Object)
	if err != nil {
		return err
	}
	if cap(im.drafts)-len(im.drafts) < draftRoom {
		im.drafts = make([]byte, 0, draftsRoom)
	}
	from := len(im.drafts)
	all, at, err := appendDraft(im.drafts, e, object)
	if err != nil {
		return err
	}
	im.object, im.drafts = object, all
	l.draft = &draft{owner: im.account, resource: e.Resource, typ: e.Type, rest: all[from:len(all):len(all)]}
	l.snapshot = all[at : at+len(object) : at+len(object)]
	return nil
}

// The memory of drafts is made for some eighty of a usual size at once. One for
// which there is too little left moves the latest to more.
const (
	draftsRoom = 64 << 10
	draftRoom  = 2 << 10
)

// checkLine fills in what a line may leave out, and checks the rest.
func (im *Importer) checkLine(ctx context.Context, e *eventLine) error {
	if err := e.complete(im.account, "import"); err != nil {
		return err
	}
	if now := im.store.Now(); e.CreatedAt > now.Add(aheadMax).Unix() {
		return invalid("createdAt", "check the clock of both machines", "createdAt lies in the future: here it is %d", now.Unix())
	}
	if horizon := im.store.horizon(); e.CreatedAt < horizon.Millis()/1000 {
		return tooOld(horizon)
	}
	return im.store.checkEvent(ctx, &e.NewEvent)
}

func tooOld(horizon Position) error {
	return invalid("createdAt", "leave such events out", "createdAt is older than events are kept here: the oldest may be %d", horizon.Millis()/1000)
}

// place decides where in the log a line lies.
func (im *Importer) place(e *eventLine, l *importLine) (err error) {
	if !e.has("id") {
		if im.options.SkipErrors {
			// The file that is repaired afterwards would give the lines behind
			// the repair other places.
			return invalid("id", "give every line an id, or import without skipping", "a line without an id cannot be imported while lines are skipped")
		}
		l.place, err = im.places.of(l.draft, "", e.CreatedAt)
		return err
	}
	if !IsID(e.ID) {
		return invalid("id", "leave it out to be given one", "id must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -")
	}
	if p, native := ParsePosition(e.ID); native {
		if p.Millis()/1000 != e.CreatedAt {
			return invalid("id", "make them agree, or leave the id out", "the id says that the event was at %d, and createdAt says %d", p.Millis()/1000, e.CreatedAt)
		}
		l.place = p
		return nil
	}
	l.foreign = e.ID
	l.place, err = im.places.of(l.draft, e.ID, e.CreatedAt)
	return err
}
