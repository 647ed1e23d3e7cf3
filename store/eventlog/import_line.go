package eventlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/store/record"
	"tollhouse/store/snapshot"
	"tollhouse/store/spelling"
)

// lineDepthMax is the nesting depth of a line: a snapshot within an event.
const lineDepthMax = snapshot.DepthMax + 2

// aheadMax is how far another machine's clock may be ahead of ours.
const aheadMax = 5 * time.Second

// eventLine is an event in the specification's form.
type eventLine struct {
	NewEvent
	ID        string
	CreatedAt int64
	given     uint8 // a bit for each of eventMembers
}

func (l *eventLine) has(member string) bool {
	return l.given&(1<<slices.Index(eventMembers, member)) != 0
}

// EventMembers lists the members of an event.
func EventMembers() []string { return slices.Clone(eventMembers) }

var eventMembers = []string{"id", "owner", "resource", "source", "location", "type", "eventData", "createdAt"}

// read reads one event in an arena; its snapshots are valid until the next
// call. It checks the kind of every member and rejects unknown ones; the caller checks
// the texts. Errors: *snapshot.Error, *InvalidError.
func (l *eventLine) read(line []byte, arena *snapshot.Arena) error {
	*l = eventLine{}
	if bytes.HasPrefix(line, []byte("\ufeff")) {
		return &snapshot.Error{Fault: snapshot.Malformed, Reason: "the line begins with a byte order mark; save the file as UTF-8 without one"}
	}
	v, err := arena.Parse(line, lineDepthMax)
	if err != nil {
		return hintOneLine(line, err)
	}
	if v.Kind() != snapshot.Object {
		return record.Invalid("", "write one event per line", "the line holds %s, not an event", v.Kind())
	}
	for _, m := range v.Members() {
		if err := l.take(m); err != nil {
			return err
		}
		l.given |= 1 << slices.Index(eventMembers, m.Name)
	}
	for _, member := range [...]string{"type", "resource", "eventData"} {
		if !l.has(member) {
			return record.Invalid(member, "", "%s is missing", member)
		}
	}
	return nil
}

// hintOneLine says how to write one event per line, if the line begins a longer document.
func hintOneLine(line []byte, err error) error {
	var doc *snapshot.Error
	begins := bytes.TrimSpace(line)
	if !errors.As(err, &doc) || len(begins) == 0 || begins[0] != '[' && len(begins) > 1 {
		return err
	}
	hinted := *doc
	hinted.Reason += "; write one event per line, without a list around them, for example with jq -c '.[]'"
	return &hinted
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
	if m.Value.Kind() != snapshot.String {
		return record.Invalid(m.Name, "", "%s must be a string%s", m.Name, m.Value.NotThis())
	}
	*text = m.Value.Text()
	return nil
}

// text returns where to store the text of a member, or nil for an unknown member.
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
	if v.Kind() != snapshot.Number || err != nil || n < 0 || v.Text() == "-0" {
		return record.Invalid("createdAt", "give seconds since 1970, in UTC", "createdAt must be a whole number of seconds%s", v.NotThis())
	}
	if n > CreatedAtMax {
		if n <= CreatedAtMax*1000 {
			return record.Invalid("createdAt", "", "createdAt looks like milliseconds; in seconds it is %d%s", n/1000, v.NotThis())
		}
		return record.Invalid("createdAt", "give seconds since 1970, in UTC", "createdAt is larger than %d%s", int64(CreatedAtMax), itIs(v))
	}
	l.CreatedAt = n
	return nil
}

func (l *eventLine) takeEventData(v snapshot.Value) error {
	if v.Kind() != snapshot.Object {
		return record.Invalid("eventData", "", "eventData must be an object%s", v.NotThis())
	}
	members := []string{"object", "previousAttributes"}
	for _, m := range v.Members() {
		switch m.Name {
		case "object":
			l.Object = m.Value
		case "previousAttributes":
			if m.Value.Kind() != snapshot.Object {
				return record.Invalid("eventData.previousAttributes", "leave it out when nothing was replaced", "eventData.previousAttributes must be an object%s", m.Value.NotThis())
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

// itIs completes a sentence with a text or number that was given, unless that must not be
// repeated.
func itIs(v snapshot.Value) string { return strings.Replace(v.NotThis(), ", not", ": it is", 1) }

func unknownMember(name, of string, known []string) error {
	shown := snapshot.Quote(name)
	if shown == "" {
		return &snapshot.Error{Fault: snapshot.UnknownField, Reason: of + " has an unknown member, whose name may be a card number or a secret"}
	}
	e := &snapshot.Error{Fault: snapshot.UnknownField, Path: name, Reason: fmt.Sprintf("%s is not a member of %s", shown, of)}
	if len(name) > labelSizeMax {
		e.Path = ""
	}
	if near, ok := spelling.Nearest(name, slices.Values(known)); ok {
		e.Reason += "; did you mean " + near + "?"
	}
	return e
}

// ParseNewEvent reads one event to be recorded now for an account. The server sets its
// id and createdAt. Errors: *snapshot.Error, *InvalidError.
func ParseNewEvent(body []byte, account string) (NewEvent, error) {
	var e eventLine
	if err := e.read(body, new(snapshot.Arena)); err != nil {
		return NewEvent{}, err
	}
	for _, member := range []string{"id", "createdAt"} {
		if e.has(member) {
			return NewEvent{}, record.Invalid(member, "to record history, import it", "%s is set by the server", member)
		}
	}
	if err := e.complete(account, "system"); err != nil {
		return NewEvent{}, err
	}
	return e.NewEvent, nil
}

// complete fills in what an event of the account may omit.
func (l *eventLine) complete(account, location string) error {
	if !l.has("owner") {
		l.Owner = account
	}
	if l.Owner != account {
		return record.Invalid("owner", "leave it out, or use that account", "owner is not the account %s%s", account, itIs(snapshot.Text(l.Owner)))
	}
	if !l.has("source") {
		l.Source = "system"
	}
	if !l.has("location") {
		l.Location = location
	}
	return nil
}

// parse turns a line into an event to commit.
func (im *Importer) parse(ctx context.Context, line []byte, l *importLine) error {
	if len(line) > ImportLineSizeMax {
		return &snapshot.Error{Fault: snapshot.TooLarge, Reason: fmt.Sprintf("the line has %d bytes, more than %d", len(line), ImportLineSizeMax)}
	}
	e := &im.line
	if err := e.read(line, &im.lineArena); err != nil {
		return err
	}
	if !e.has("createdAt") {
		return record.Invalid("createdAt", "give seconds since 1970, in UTC", "createdAt is missing")
	}
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
	return im.identify(e, l)
}

// parseResource turns a resource into the event that made it, or into a line without one.
func (im *Importer) parseResource(ctx context.Context, l *importLine) error {
	r, now := l.resource, im.log.now()
	if err := r.check(); err != nil {
		return err
	}
	e := &eventLine{CreatedAt: now.Unix(), NewEvent: NewEvent{Resource: r.ID, Type: r.Kind + "." + cmp.Or(r.Action, "created"), Object: r.Object}}
	if r.CreatedAt != nil {
		e.CreatedAt = *r.CreatedAt
	}
	if !r.Silent {
		if err := im.log.Rules().Check(r.Kind, r.ID, r.Object); err != nil {
			return underEventData(err, "object")
		}
		e.Object = im.log.Rules().Complete(r.Kind, r.ID, r.Object, snapshot.ObjectOf(), time.Unix(e.CreatedAt, 0).UTC().Format(time.DateOnly))
	}
	if err := im.checkLine(ctx, e); err != nil {
		return err
	}
	if err := im.draft(&e.NewEvent, l); err != nil {
		return err
	}
	l.kind, l.createdAt = r.Kind, e.CreatedAt
	l.digest = l.draft.digest(im.account, "", e.CreatedAt, &im.hashed)
	l.position = record.NewPosition(e.CreatedAt*1000, 0, l.digest.tail())
	return nil
}

// check names what is wrong with a resource by the members of its line, which an event does not have.
func (r *ImportedResource) check() error {
	switch {
	case !IsKind(r.Kind):
		return record.Invalid("kind", "use a kind such as customer", "kind %s%s", KindRule, notText(r.Kind))
	case !IsID(r.ID):
		return record.Invalid("id", "use an id such as cus_4tn8k2w1", "id must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -%s", notText(r.ID))
	case r.Action == "deleted":
		return record.Invalid("action", "leave such resources out", "action must not be deleted: a resource that exists was not")
	case r.Action != "" && !IsAction(r.Action):
		return record.Invalid("action", "leave it out for created", "action must have lower-case letters, digits and _%s", notText(r.Action))
	case r.Object.Kind() != snapshot.Object:
		return record.Invalid("object", "give the whole resource", "object must be an object%s", r.Object.NotThis())
	}
	return nil
}

// leaveLine copies the texts that outlive the line. As substrings they would keep the
// whole line in memory, which is more than the batch accounts for.
func (l *eventLine) leaveLine() {
	texts := l.Type + l.Resource + l.ID
	l.Type, texts = texts[:len(l.Type)], texts[len(l.Type):]
	l.Resource, l.ID = texts[:len(l.Resource)], texts[len(l.Resource):]
}

// draft encodes a line in memory shared with the lines before it.
func (im *Importer) draft(e *NewEvent, l *importLine) error {
	object, err := appendSnapshot(im.object[:0], e.Object)
	if err != nil {
		return err
	}
	if cap(im.drafts)-len(im.drafts) < draftSpare {
		im.drafts = make([]byte, 0, draftsChunk)
	}
	from := len(im.drafts)
	all, at, err := appendDraft(im.drafts, e, object)
	if err != nil {
		return err
	}
	im.object, im.drafts = object, all
	l.draft = draft{owner: im.account, resource: e.Resource, typ: e.Type, rest: all[from:len(all):len(all)]}
	l.snapshot = all[at : at+len(object) : at+len(object)]
	return nil
}

// Drafts share chunks of memory for some eighty of usual size. A draft that finds too
// little space starts a new chunk.
const (
	draftsChunk = 64 << 10
	draftSpare  = 2 << 10
)

// checkLine fills in what a line may omit and checks the rest.
func (im *Importer) checkLine(ctx context.Context, e *eventLine) error {
	if err := e.complete(im.account, "import"); err != nil {
		return err
	}
	if now := im.log.now(); e.CreatedAt > now.Add(aheadMax).Unix() {
		return record.Invalid("createdAt", "check the clock of both machines", "createdAt is in the future: the time here is %d, not %d", now.Unix(), e.CreatedAt)
	}
	if horizon := im.log.horizon(); e.CreatedAt < horizon.Millis()/1000 {
		return tooOld(horizon, e.CreatedAt)
	}
	if err := im.log.checkEvent(ctx, &e.NewEvent); err != nil {
		return err
	}
	return im.checkType(ctx, e.Type)
}

func tooOld(horizon record.Position, createdAt int64) error {
	return record.Invalid("createdAt", fmt.Sprintf("leave such events out: this one is of %d", createdAt), "createdAt is older than the retention period: the oldest allowed is %d", horizon.Millis()/1000)
}

// identify reads the id of a line.
func (im *Importer) identify(e *eventLine, l *importLine) error {
	switch p, native := record.ParsePosition(e.ID); {
	case !e.has("id") && im.options.SkipErrors:
		// Once fixed, the rejected line would be recorded after the lines that follow it.
		return record.Invalid("id", "give every line an id, or import without skipping", "a line without an id cannot be imported while lines are skipped")
	case e.has("id") && !IsID(e.ID):
		return record.Invalid("id", "leave it out to get one", "id must have 1 to 64 characters of A-Z, a-z, 0-9, _ and -%s", notText(e.ID))
	case native && p.Millis()/1000 != e.CreatedAt:
		return record.Invalid("id", "make them agree, or leave the id out", "the id contains the time %d, but createdAt is %d", p.Millis()/1000, e.CreatedAt)
	case native:
		l.position, l.native = p, true
		return nil
	}
	l.foreign = e.ID
	l.digest = l.draft.digest(im.account, e.ID, e.CreatedAt, &im.hashed)
	l.position = record.NewPosition(e.CreatedAt*1000, 0, l.digest.tail())
	return nil
}
