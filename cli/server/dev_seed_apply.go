package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"tollhouse/handlers/dev"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/webhook/target"
)

// seeder creates what a seed says in a store.
type seeder struct {
	*seed
	to     *store.Store
	random secret.Source
	rules  *target.Rules
	demo   web.Demo // the first client, user and account, for lines that name none
	byTest bool     // made at a test's request, so that each event is a new one
}

// apply creates everything in the file and returns what the ready line shows.
func (s *seed) apply(ctx context.Context, to *store.Store, random secret.Source, rules *target.Rules) (*web.Demo, error) {
	w := seeder{seed: s, to: to, random: random, rules: rules, demo: web.Demo{Account: s.account()}}
	if err := w.run(ctx); err != nil {
		return nil, s.inFile(err)
	}
	shown := w.demo
	if len(s.users)+len(s.accounts)+len(s.events)+len(s.webhooks) == 0 {
		shown.Account = ""
	} else if len(s.users) > 0 {
		shown.Account = s.users[0].accountID()
	}
	return &shown, nil
}

func (w *seeder) run(ctx context.Context) error {
	for _, a := range w.accounts {
		if _, err := w.to.CreateAccount(ctx, a.ID, a.Name); err != nil {
			return storeError(a.line, "account", a.ID, err)
		}
		w.made[a.line] = map[string]any{"account": a}
	}
	for _, c := range w.clients {
		id, sec, err := c.create(ctx, w.to, w.random)
		if err != nil {
			return storeError(c.line, "client", c.ClientID, err)
		}
		c.ClientID, c.ClientSecret = id, sec.Reveal()
		w.made[c.line] = map[string]any{"client": c}
		if !w.byTest {
			w.showClient(c)
		}
	}
	for i, u := range w.users {
		u.Account = u.accountID()
		_, err := w.to.CreateFixtureUser(ctx, store.UserSpec{Username: u.Username, Account: u.Account, Password: u.Password, Operator: u.Operator})
		if err == nil && u.Disabled {
			_, err = w.to.DisableUser(ctx, u.Username)
		}
		if err != nil {
			return storeError(u.line, "user", u.Username, err)
		}
		w.made[u.line] = map[string]any{"user": u}
		if i == 0 && !w.byTest {
			w.demo.Username, w.demo.Password, w.demo.Operator = u.Username, u.Password, u.Operator && !u.Disabled
		}
	}
	record := w.importEvents
	if w.byTest {
		record = w.recordEvents
	}
	if err := record(ctx); err != nil {
		return err
	}
	if err := w.createWebhooks(ctx); err != nil {
		return err
	}
	for _, t := range w.tokens {
		answer, err := t.Issue(ctx, w.to, &w.demo)
		if err != nil {
			param, text, exists := dev.Explain(err)
			return &seedError{line: t.line, param: "token" + asMember(param), hint: "correct the token", exists: exists,
				err: fmt.Errorf("token%s: %s", asMember(param), strings.TrimSuffix(text, "."))}
		}
		w.made[t.line] = map[string]any{"token": answer}
	}
	return nil
}

// showClient has the ready line show the first platform client, and the first other one.
func (w *seeder) showClient(c seedClient) {
	switch {
	case c.Platform && w.demo.PlatformClientID == "":
		w.demo.PlatformClientID, w.demo.PlatformSecret = c.ClientID, c.ClientSecret
	case !c.Platform && w.demo.ClientID == "":
		w.demo.ClientID, w.demo.ClientSecret = c.ClientID, c.ClientSecret
		if len(c.RedirectURIs) > 0 {
			w.demo.RedirectURI = c.RedirectURIs[0]
		}
	}
}

// recordEvents records the events, each as a new one, and remembers them.
func (w *seeder) recordEvents(ctx context.Context) error {
	fixtures := make([]eventlog.Fixture, len(w.events))
	for i, e := range w.events {
		var err error
		if fixtures[i], err = eventlog.ParseFixture(e.inForm(w.to.Now(), w.seed.kinds), cmp.Or(e.owner, w.demo.Account)); err != nil {
			return storeError(e.line, e.kind, "", err)
		}
	}
	events, refused, err := w.to.Events.RecordFixtures(ctx, fixtures)
	if err != nil {
		return err
	}
	if refused != nil {
		return w.events[refused.Line-1].refused(refused)
	}
	for i, e := range w.events {
		w.made[e.line] = map[string]any{e.kind: json.RawMessage(events[i])}
		if e.kind == "resource" {
			if w.made[e.line], err = w.shownResource(events[i], e.resource.Kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// shownResource returns a resource as its line, completed by its event.
func (w *seeder) shownResource(wire []byte, kind string) (any, error) {
	var event struct {
		ID, Owner, Resource, Type string
		CreatedAt                 int64
		EventData                 struct{ Object json.RawMessage }
	}
	if err := json.Unmarshal(wire, &event); err != nil {
		return nil, err
	}
	_, action, _ := strings.Cut(event.Type, ".")
	return map[string]any{"resource": struct {
		seedResource
		Event string `json:"event"`
	}{seedResource{kind, event.Resource, event.EventData.Object, event.Owner, &event.CreatedAt, action}, event.ID}}, nil
}

// refused is the error of an event's line.
func (e seedEvent) refused(bad *eventlog.LineError) error {
	param := bad.Param
	if e.kind == "resource" {
		param = strings.TrimPrefix(param, "eventData.")
	}
	if param == "owner" {
		param = "account"
	}
	return lineError(e.line, e.kind+asMember(param), "correct the "+e.kind, "%s%s: %s", e.kind, asMember(param), bad.Reason)
}

func (c seedClient) create(ctx context.Context, to *store.Store, random secret.Source) (id string, sec secret.Token, err error) {
	spec := store.ClientSpec{Name: c.Name, RedirectURIs: c.RedirectURIs, Grants: c.Grants, Scopes: c.Scopes, Public: c.Public, Introspect: c.Introspect, Consent: c.Consent, Account: c.Account, Platform: c.Platform}
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
		if sec, ok = secret.Fixture(c.ClientSecret); !ok {
			return "", sec, &record.InvalidError{Field: "client_secret", Reason: fmt.Sprintf("a client secret has 1 to %d bytes without control characters", secret.FixtureSizeMax),
				Hint: "leave it out to get a new one"}
		}
	}
	made, err := to.CreateFixedClient(ctx, c.ClientID, sec, spec)
	if err == nil && c.Disabled {
		_, err = to.DisableClient(ctx, made.ID)
	}
	if c.Public {
		sec = secret.Token{}
	}
	return made.ID, sec, err
}

// importEvents imports the events of each owner in the order of the file.
func (w *seeder) importEvents(ctx context.Context) error {
	var owners []string
	byOwner := map[string][]seedEvent{}
	for _, e := range w.events {
		if e.owner == "" {
			e.owner = w.demo.Account
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
			lines[i] = e.inForm(w.to.Now(), w.seed.kinds).Append(nil)
		}
		refused, err := importAll(ctx, w.to, owner, lines)
		if err != nil {
			return storeError(events[0].line, events[0].kind, "", err)
		}
		if len(refused) > 0 {
			return events[refused[0].Line-1].refused(&refused[0])
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
func storeError(line int, kind, id string, err error) error {
	var bad *record.InvalidError
	var doc *snapshot.Error
	switch {
	case errors.As(err, &bad):
		return lineError(line, kind+asMember(bad.Field), bad.Hint, "%s%s: %s", kind, asMember(bad.Field), bad.Reason)
	case errors.As(err, &doc):
		return lineError(line, kind+asMember(doc.Path), "", "%s%s: %s", kind, asMember(doc.Path), doc.Reason)
	case errors.Is(err, record.ErrExists):
		return &seedError{line: line, param: kind, hint: "remove the duplicate", err: fmt.Errorf("%s %q already exists", kind, id), exists: true}
	}
	return fmt.Errorf("line %d: %w", line, err)
}
