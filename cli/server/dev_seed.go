package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/spelling"
)

// seed is a parsed seed file. Its lines may come in any order: accounts are created
// first, then clients, users and events.
type seed struct {
	file     string
	accounts []seedAccount
	clients  []seedClient
	users    []seedUser
	events   []seedEvent
}

// The members are those that `client create`, `user create` and `account create`
// print, except those that only a server sets.
type (
	seedClient struct {
		ClientID     string   `json:"client_id"`
		ClientSecret string   `json:"client_secret"`
		Name         string   `json:"name"`
		RedirectURIs []string `json:"redirect_uris"`
		Grants       []string `json:"grants"`
		Scopes       []string `json:"scopes"`
		Public       bool     `json:"public"`
		Introspect   bool     `json:"introspect"`
		Disabled     bool     `json:"disabled"`
		line         int
	}
	seedUser struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Account  string `json:"account"`
		Disabled bool   `json:"disabled"`
		line     int
	}
	seedAccount struct {
		ID   string `json:"account"`
		Name string `json:"name"`
		line int
	}
	seedEvent struct {
		owner string // "" for the first account
		text  []byte // in the form of an import
		line  int
	}
)

const (
	seedLinesMax    = 1_000_000
	seedLineSizeMax = eventlog.ImportLineSizeMax + len(`{"event":}`)
	seedDepthMax    = snapshot.DepthMax + 3 // a snapshot in an event in a line
)

// seedKinds are the kinds of lines.
var seedKinds = []string{"client", "user", "account", "event"}

// readSeed reads --seed-file, or returns nil if there is none.
func (p *Program) readSeed(name string) (*seed, error) {
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
	s := &seed{file: name}
	if name == "-" {
		s.file = "standard input"
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, seedLineSizeMax+1)
	n := 0
	for lines.Scan() {
		if n++; n > seedLinesMax {
			return nil, s.lineError(n, "import the rest with event import, over the admin socket", "the file has more than %d lines", seedLinesMax)
		}
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			if err := s.parseLine(n, text); err != nil {
				return nil, err
			}
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, s.lineError(n+1, "write one object per line", "the line has more than %d bytes", seedLineSizeMax)
	case err != nil:
		return nil, term.Fail(term.ExitIO, "", "--seed-file %s: %w", name, term.PathReason(err))
	}
	return s, nil
}

// lineError returns the error for a line, with its next step.
func (s *seed) lineError(line int, hint, format string, args ...any) error {
	return term.Fail(term.ExitBadData, hint, "%s: line %d: "+format, append([]any{s.file, line}, args...)...)
}

// parseLine parses one line.
func (s *seed) parseLine(line int, text []byte) error {
	const form = `each line is {"client":{…}}, {"user":{…}}, {"account":{…}} or {"event":{…}}`
	v, err := snapshot.Parse(text, seedDepthMax)
	if err != nil {
		return s.lineError(line, form, "%w", err)
	}
	if v.Kind() != snapshot.Object || len(v.Members()) != 1 {
		return s.lineError(line, form, "the line must be one object with one member")
	}
	kind, inside := v.Members()[0].Name, v.Members()[0].Value
	if !slices.Contains(seedKinds, kind) {
		hint := form
		if near, ok := spelling.Nearest(kind, slices.Values(seedKinds)); ok {
			hint = "did you mean " + near + "?"
		}
		return s.lineError(line, hint, "unknown kind %q", kind)
	}
	if inside.Kind() != snapshot.Object {
		return s.lineError(line, form, "%s must be an object, not %s", kind, inside.Kind())
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
		owner, _ := inside.Member("owner")
		s.events = append(s.events, seedEvent{owner: owner.Text(), text: inside.Append(nil), line: line})
	}
	return err
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
		return s.lineError(line, hint, "a %s has no member %q", kind, m.Name)
	}
	var wrong *json.UnmarshalTypeError
	err := json.Unmarshal(v.Append(nil), into)
	if errors.As(err, &wrong) {
		return s.lineError(line, "give "+wantedType(wrong.Type), "%s.%s is %s", kind, wrong.Field, wrong.Value)
	}
	return err
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
	}
	return demoAccount
}

func (u seedUser) accountID() string {
	if u.Account == "" {
		return demoAccount
	}
	return u.Account
}

// apply creates everything in the file and returns what the ready line shows.
func (s *seed) apply(ctx context.Context, to *store.Store, random secret.Source) (*handlers.Demo, error) {
	shown := &handlers.Demo{}
	for _, a := range s.accounts {
		if _, err := to.CreateAccount(ctx, a.ID, a.Name); err != nil {
			return nil, s.storeError(a.line, "account", a.ID, err)
		}
	}
	for i, c := range s.clients {
		id, sec, err := c.create(ctx, to, random)
		if err != nil {
			return nil, s.storeError(c.line, "client", c.ClientID, err)
		}
		if i == 0 {
			shown.ClientID, shown.ClientSecret = id, sec.Reveal()
			if len(c.RedirectURIs) > 0 {
				shown.RedirectURI = c.RedirectURIs[0]
			}
		}
	}
	for i, u := range s.users {
		_, err := to.CreateUser(ctx, u.Username, u.accountID(), u.Password)
		if err == nil && u.Disabled {
			_, err = to.DisableUser(ctx, u.Username)
		}
		if err != nil {
			return nil, s.storeError(u.line, "user", u.Username, err)
		}
		if i == 0 {
			shown.Username, shown.Password = u.Username, u.Password
		}
	}
	if len(s.users) > 0 {
		shown.Account = s.users[0].accountID()
	} else if len(s.accounts)+len(s.events) > 0 {
		shown.Account = s.account()
	}
	return shown, s.importEvents(ctx, to)
}

func (c seedClient) create(ctx context.Context, to *store.Store, random secret.Source) (id string, sec secret.Token, err error) {
	spec := store.ClientSpec{Name: c.Name, RedirectURIs: c.RedirectURIs, Grants: c.Grants, Scopes: c.Scopes, Public: c.Public, Introspect: c.Introspect}
	if spec.Name == "" {
		spec.Name = c.ClientID // screens always show a name
	}
	switch {
	case c.ClientSecret == "":
		sec = secret.New(random, secret.ClientSecret)
	case c.Public:
		return "", sec, &record.InvalidError{Field: "client_secret", Reason: "a public client has no secret", Hint: "leave out client_secret, or public"}
	default:
		var ok bool
		if sec, ok = secret.Parse(secret.ClientSecret, c.ClientSecret); !ok {
			return "", sec, &record.InvalidError{Field: "client_secret", Reason: "this is not a tollhouse client secret",
				Hint: "leave it out to get a new one in the ready line, or give one that `tollhouse client create` printed"}
		}
	}
	made := store.Client{ID: c.ClientID}
	if c.ClientID == "" {
		made, sec, err = to.CreateClient(ctx, spec)
	} else {
		made, err = to.CreateFixedClient(ctx, c.ClientID, sec, spec)
	}
	if err == nil && c.Disabled {
		_, err = to.DisableClient(ctx, made.ID)
	}
	if c.Public {
		sec = secret.Token{}
	}
	return made.ID, sec, err
}

// importEvents imports the events of each owner in the order of the file.
func (s *seed) importEvents(ctx context.Context, to *store.Store) error {
	var owners []string
	byOwner := map[string][]seedEvent{}
	for _, e := range s.events {
		if e.owner == "" {
			e.owner = s.account()
		}
		if byOwner[e.owner] == nil {
			owners = append(owners, e.owner)
		}
		byOwner[e.owner] = append(byOwner[e.owner], e)
	}
	for _, owner := range owners {
		events := byOwner[owner]
		lines := make([][]byte, len(events))
		for i, e := range events {
			lines[i] = e.text
		}
		refused, err := importAll(ctx, to, owner, lines)
		if err != nil {
			return s.storeError(events[0].line, "event", "", err)
		}
		if len(refused) > 0 {
			return s.lineError(events[refused[0].Line-1].line, "correct the event", "event%s: %s", asMember(refused[0].Param), refused[0].Reason)
		}
	}
	return nil
}

func asMember(name string) string {
	if name == "" {
		return ""
	}
	return "." + name
}

// storeError turns an error of the store into one about the line.
func (s *seed) storeError(line int, kind, id string, err error) error {
	var bad *record.InvalidError
	switch {
	case errors.As(err, &bad):
		return s.lineError(line, bad.Hint, "%s%s: %s", kind, asMember(bad.Field), bad.Reason)
	case errors.Is(err, record.ErrExists):
		return s.lineError(line, "remove the duplicate", "%s %q already exists", kind, id)
	}
	return fmt.Errorf("%s: line %d: %w", s.file, line, err)
}
