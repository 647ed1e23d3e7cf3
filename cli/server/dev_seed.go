package server

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollhouse/cli/term"
	"tollhouse/handlers/dev"
	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/spelling"
)

// seed is a parsed seed file. Its lines may come in any order: accounts are created
// first, then clients, users, resources and events in their order, webhooks and tokens.
type seed struct {
	file     string
	kinds    snapshot.Rules // for resources
	accounts []seedAccount
	clients  []seedClient
	users    []seedUser
	events   []seedEvent
	webhooks []seedWebhook
	tokens   []seedToken
	made     map[int]any // what each line has created, with its kind
}

// The members are those that `client create`, `user create` and `account create`
// print, except those that only a server sets. The table in docs/testing.md is made of them.
type (
	seedClient struct {
		ClientID     string   `json:"client_id" does:"up to 255 visible ASCII characters; generated if missing"`
		ClientSecret string   `json:"client_secret" does:"any string; generated if missing"`
		Name         string   `json:"name" does:"display name; its id if missing"`
		RedirectURIs []string `json:"redirect_uris" does:"where codes are sent"`
		Grants       []string `json:"grants" does:"password, authorization_code and refresh_token if missing"`
		Scopes       []string `json:"scopes" does:"what it is limited to; all if missing"`
		Public       bool     `json:"public" does:"it has no secret and must use PKCE"`
		Introspect   bool     `json:"introspect" does:"it may introspect the tokens of every client"`
		Consent      string   `json:"consent" does:"ask or remember; ask if missing"`
		Account      string   `json:"account" does:"used for client_credentials"`
		Platform     bool     `json:"platform" does:"a platform client, which names its scopes"`
		Disabled     bool     `json:"disabled" does:"it is refused everywhere"`
		line         int
	}
	seedUser struct {
		Username string `json:"username" does:"required"`
		Password string `json:"password" does:"required, any string"`
		Account  string `json:"account" does:"acct_demo if missing"`
		Operator bool   `json:"operator" does:"may use the desk"`
		Disabled bool   `json:"disabled" does:"cannot sign in"`
		line     int
	}
	seedAccount struct {
		ID   string `json:"account" does:"required, its id"`
		Name string `json:"name" does:"display name"`
		line int
	}
	seedEvent struct {
		kind  string         // of the line: event or resource
		owner string         // "" for the first account
		value snapshot.Value // in the form of an import, but for a resource's object
		line  int

		resource seedResource // of a resource
		body     snapshot.Value
	}
	seedResource struct {
		Kind      string          `json:"kind" does:"required, such as customer"`
		ID        string          `json:"id" does:"required"`
		Object    json.RawMessage `json:"object" does:"required, the whole resource"`
		Account   string          `json:"account" does:"the first account if missing"`
		CreatedAt *int64          `json:"createdAt" does:"of its event, in Unix seconds; now if missing"`
		Action    string          `json:"action" does:"of its event; created if missing"`
	}
	seedToken struct {
		dev.Token
		line int
	}
)

const (
	seedLinesMax    = 1_000_000
	seedLineSizeMax = eventlog.ImportLineSizeMax + len(`{"event":}`)
	seedDepthMax    = snapshot.DepthMax + 3 // a snapshot in an event in a line
)

// seedKinds are the kinds of lines.
var seedKinds = []string{"client", "user", "account", "event", "resource", "webhook", "token"}

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
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, seedLineSizeMax+1)
	n := 0
	for lines.Scan() {
		if n++; n > seedLinesMax {
			return nil, s.inFile(lineError(n, "", "import the rest with event import, over the admin socket", "the file has more than %d lines", seedLinesMax))
		}
		text := lines.Bytes()
		if text = bytes.TrimSpace(text); len(text) > 0 {
			if err := s.parseLine(n, text); err != nil {
				return nil, s.inFile(err)
			}
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, s.inFile(lineError(n+1, "", "write one object per line", "the line has more than %d bytes", seedLineSizeMax))
	case err != nil:
		return nil, term.Fail(term.ExitIO, "", "--seed-file %s: %w", name, term.PathReason(err))
	}
	return s, nil
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
	const form = `each line is {"client":{…}}, {"user":{…}}, {"account":{…}}, {"event":{…}}, {"resource":{…}}, {"webhook":{…}} or {"token":{…}}`
	v, err := snapshot.Parse(text, seedDepthMax)
	if err != nil {
		return lineError(line, unheldMember(err), form, "%w", err)
	}
	if v.Kind() != snapshot.Object || len(v.Members()) != 1 {
		return lineError(line, "", form, "the line must be one object with one member")
	}
	kind, inside := v.Members()[0].Name, v.Members()[0].Value
	if !slices.Contains(seedKinds, kind) {
		hint := form
		if near, ok := spelling.Nearest(kind, slices.Values(seedKinds)); ok {
			hint = "did you mean " + near + "?"
		}
		return lineError(line, "", hint, "unknown kind %q", kind)
	}
	if inside.Kind() != snapshot.Object {
		return lineError(line, "", form, "%s must be an object, not %s", kind, inside.Kind())
	}
	switch kind {
	case "client":
		c := seedClient{line: line}
		err = s.decode(line, kind, inside, &c)
		s.clients = append(s.clients, c)
	case "user":
		u := seedUser{line: line}
		err = s.decode(line, kind, inside, &u)
		s.users = append(s.users, u)
	case "account":
		a := seedAccount{line: line}
		err = s.decode(line, kind, inside, &a)
		s.accounts = append(s.accounts, a)
	case "event":
		if inside, err = eventlog.AccountAsOwner(inside); err != nil {
			return lineError(line, "event.owner", "leave out one of them", "%w", err)
		}
		owner, _ := inside.Member("owner")
		s.events = append(s.events, seedEvent{kind: kind, owner: owner.Text(), value: inside, line: line})
	case "resource":
		var r seedResource
		if err = s.decode(line, kind, inside, &r); err == nil {
			err = s.addResource(line, r)
		}
	case "webhook":
		h := seedWebhook{line: line}
		err = s.decode(line, kind, inside, &h)
		s.webhooks = append(s.webhooks, h)
	case "token":
		t := seedToken{line: line}
		err = s.decode(line, kind, inside, &t.Token)
		s.tokens = append(s.tokens, t)
	}
	return err
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
func (s *seed) addResource(line int, r seedResource) error {
	if r.Object == nil {
		return lineError(line, "resource.object", "give the whole resource", "resource.object is missing")
	}
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

// decode unmarshals an object into the struct that into points to. It refuses unknown
// members.
func (s *seed) decode(line int, kind string, v snapshot.Value, into any) error {
	known := jsonNames(into)
	for _, m := range v.Members() {
		if slices.Contains(known, m.Name) {
			continue
		}
		hint := "leave it out; the members are " + strings.Join(known, ", ")
		if near, ok := spelling.Nearest(m.Name, slices.Values(known)); ok {
			hint = "did you mean " + near + "?"
		}
		return lineError(line, kind+asMember(m.Name), hint, "%s has no member %q", withArticle(kind), m.Name)
	}
	var wrong *json.UnmarshalTypeError
	err := json.Unmarshal(v.Append(nil), into)
	if errors.As(err, &wrong) {
		return lineError(line, kind+asMember(wrong.Field), "give "+wantedType(wrong.Type), "%s.%s is %s", kind, wrong.Field, wrong.Value)
	}
	return err
}

func withArticle(kind string) string {
	if kind == "account" || kind == "event" {
		return "an " + kind
	}
	return "a " + kind
}

func jsonNames(into any) (names []string) {
	for field := range reflect.TypeOf(into).Elem().Fields() {
		if name := field.Tag.Get("json"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func wantedType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list of strings"
	case reflect.Int64:
		return "a whole number"
	}
	return "a string"
}

// account returns the first account of the file: the owner of events without one, and
// the account in the ready line.
func (s *seed) account() string {
	switch {
	case len(s.accounts) > 0:
		return s.accounts[0].ID
	case len(s.users) > 0:
		return s.users[0].accountID()
	case len(s.events) > 0 && s.events[0].owner != "":
		return s.events[0].owner
	case len(s.webhooks) > 0 && s.webhooks[0].Account != "":
		return s.webhooks[0].Account
	}
	return demoAccount
}

func (u seedUser) accountID() string {
	if u.Account == "" {
		return demoAccount
	}
	return u.Account
}
