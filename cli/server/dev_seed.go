package server

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"tollhouse/cli/term"
	"tollhouse/store/moving"
	"tollhouse/store/snapshot"
)

// seed is a parsed seed file, whose lines are those of an import. They may come in any order:
// accounts are created first, then clients, users, resources and events in their order, webhooks and
// tokens.
type seed struct {
	file     string
	kinds    snapshot.Rules // for resources
	accounts []lineOf[*moving.Account]
	clients  []lineOf[*moving.Client]
	users    []lineOf[*moving.User]
	events   []seedEvent
	silent   []lineOf[*moving.Resource] // without an event
	webhooks []lineOf[*moving.Webhook]
	tokens   []lineOf[*moving.Token]
	made     map[int]any // what each line has created, with its noun
}

// lineOf is a record and the number of its line.
type lineOf[R any] struct {
	of   R
	line int
}

// seedEvent is an event, or a resource and the event of its PUT.
type seedEvent struct {
	kind  string         // of the line: event or resource
	owner string         // "" for the first account
	value snapshot.Value // of an event, in the form of an import
	line  int

	resource *moving.Resource
	body     snapshot.Value
}

const seedLinesMax = 1_000_000

// readSeed reads --seed-file, or returns nil if there is none.
func (p *Program) readSeed(name string, kinds snapshot.Rules) (*seed, error) {
	if name == "" {
		return nil, nil
	}
	in := p.In
	if name != "-" {
		f, err := term.OpenInput(name)
		if err != nil {
			return nil, term.Usage("give a file of JSON lines, or - for standard input", "--seed-file %s: %w", name, term.PathReason(err))
		}
		defer f.Close()
		in = f
	}
	s := &seed{file: name, kinds: kinds, made: map[int]any{}}
	if name == "-" {
		s.file = "standard input"
	}
	text := bufio.NewReader(in)
	if err := term.SkipByteOrderMark(text); err != nil {
		return nil, term.Fail(term.ExitBadData, "save it as UTF-8", "%s: %w", s.file, err)
	}
	lines := moving.NewReader(text, moving.LineSizeMax)
	for n := 1; ; n++ {
		line, _, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return s, nil
		case errors.Is(err, moving.ErrLongLine):
			return nil, s.inFile(lineError(n, "", "write one object per line", "the line has more than %d bytes", moving.LineSizeMax))
		case err != nil:
			return nil, term.Fail(term.ExitIO, "", "--seed-file %s: %w", name, term.PathReason(err))
		case n > seedLinesMax:
			return nil, s.inFile(lineError(n, "", "import the rest with event import, over the admin socket", "the file has more than %d lines", seedLinesMax))
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := s.parseLine(n, line); err != nil {
				return nil, s.inFile(err)
			}
		}
	}
}

// seedError is what is wrong with a line.
type seedError struct {
	line        int
	param, hint string // the member, or ""; the next step
	exists      bool   // something has that name
	err         error
}

func (e *seedError) Error() string { return e.err.Error() }
func (e *seedError) Unwrap() error { return e.err }

func lineError(line int, param, hint, format string, args ...any) error {
	return &seedError{line: line, param: param, hint: hint, err: fmt.Errorf(format, args...)}
}

// inFile names the file and the line of an error.
func (s *seed) inFile(err error) error {
	var of *seedError
	if !errors.As(err, &of) {
		return err
	}
	return term.Fail(term.ExitBadData, of.hint, "%s: line %d: %w", s.file, of.line, of.err)
}

// parseLine parses one line.
func (s *seed) parseLine(line int, text []byte) error {
	r, err := moving.Parse(text, true)
	var bad *moving.Error
	if errors.As(err, &bad) {
		return &seedError{line: line, param: bad.Param, hint: bad.Hint, err: err}
	}
	if err != nil {
		return err
	}
	switch r := r.(type) {
	case *moving.Account:
		s.accounts = append(s.accounts, lineOf[*moving.Account]{r, line})
	case *moving.Client:
		s.clients = append(s.clients, lineOf[*moving.Client]{r, line})
	case *moving.User:
		s.users = append(s.users, lineOf[*moving.User]{r, line})
	case *moving.Event:
		v, err := snapshot.Parse(r.Text, snapshot.DepthMax+2)
		s.events = append(s.events, seedEvent{kind: "event", owner: r.Owner, value: v, line: line})
		return err
	case *moving.Resource:
		return s.addResource(line, r)
	case *moving.Webhook:
		s.webhooks = append(s.webhooks, lineOf[*moving.Webhook]{r, line})
	case *moving.Token:
		s.tokens = append(s.tokens, lineOf[*moving.Token]{r, line})
	}
	return nil
}

// unheldMember returns the path of a value that common readers cannot hold, or "" if the
// line is not JSON.
func unheldMember(err error) string {
	var doc *snapshot.Error
	if errors.As(err, &doc) && doc.Fault == snapshot.Malformed {
		return doc.Path
	}
	return ""
}

// addResource turns a resource into the event that a PUT of it records.
func (s *seed) addResource(line int, r *moving.Resource) error {
	body, err := snapshot.Parse(r.Object, snapshot.DepthMax)
	if err == nil {
		err = s.kinds.Check(r.Kind, r.ID, body)
	}
	var doc *snapshot.Error
	if errors.As(err, &doc) {
		return lineError(line, "resource.object"+asMember(doc.Path), "correct the resource", "resource.object: %s", doc.Reason)
	}
	if err != nil {
		return err
	}
	if moving.NeedsImport(r) {
		s.silent = append(s.silent, lineOf[*moving.Resource]{r, line})
		return nil
	}
	s.events = append(s.events, seedEvent{kind: "resource", owner: r.Account, resource: r, body: body, line: line})
	return nil
}

// inForm returns the event in the form of an import. For a resource it is the event of
// a PUT at that time, or now.
func (e seedEvent) inForm(now time.Time, kinds snapshot.Rules) snapshot.Value {
	if e.kind == "event" {
		return e.value
	}
	r, at := e.resource, now.Unix()
	if r.CreatedAt != nil {
		at = *r.CreatedAt
	}
	today := time.Unix(at, 0).UTC().Format(time.DateOnly)
	object := kinds.Complete(r.Kind, r.ID, e.body, snapshot.ObjectOf(), today)
	return snapshot.ObjectOf(
		snapshot.Member{Name: "type", Value: snapshot.Text(r.Kind + "." + cmp.Or(r.Action, "created"))},
		snapshot.Member{Name: "resource", Value: snapshot.Text(r.ID)},
		snapshot.Member{Name: "location", Value: snapshot.Text("seed")},
		snapshot.Member{Name: "createdAt", Value: number(at)},
		snapshot.Member{Name: "eventData", Value: snapshot.ObjectOf(snapshot.Member{Name: "object", Value: object})},
	)
}

func number(n int64) snapshot.Value {
	v, err := snapshot.Parse(strconv.AppendInt(nil, n, 10), 1)
	if err != nil {
		panic("server: a number is not JSON: " + err.Error())
	}
	return v
}

// account returns the first account of the file: the owner of events without one, and
// the account in the ready line.
func (s *seed) account() string {
	switch {
	case len(s.accounts) > 0:
		return s.accounts[0].of.ID
	case len(s.users) > 0:
		return accountOf(s.users[0].of)
	case len(s.events) > 0 && s.events[0].owner != "":
		return s.events[0].owner
	case len(s.webhooks) > 0 && s.webhooks[0].of.Account != "":
		return s.webhooks[0].of.Account
	}
	return demoAccount
}

func accountOf(u *moving.User) string { return cmp.Or(u.Account, demoAccount) }
