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
	"tollhouse/store/moving"
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
		shown.Account = accountOf(s.users[0].of)
	}
	return &shown, nil
}

func (w *seeder) run(ctx context.Context) error {
	for _, l := range w.accounts {
		if moving.NeedsImport(l.of) {
			if err := w.importLine(ctx, l.line, l.of); err != nil {
				return err
			}
			continue
		}
		a := l.of
		_, err := w.to.CreateAccount(ctx, a.ID, a.Name)
		if err == nil && a.Disabled {
			_, err = w.to.DisableAccount(ctx, a.ID)
		}
		if err != nil {
			return storeError(l.line, "account", a.ID, err)
		}
		w.made[l.line] = map[string]any{"account": a}
	}
	for _, l := range w.clients {
		if moving.NeedsImport(l.of) {
			if err := w.importLine(ctx, l.line, l.of, l.of.Account); err != nil {
				return err
			}
			w.showClient(*l.of)
			continue
		}
		c, err := w.createClient(ctx, *l.of)
		if err != nil {
			return storeError(l.line, "client", c.ClientID, err)
		}
		w.made[l.line] = map[string]any{"client": c}
		if !w.byTest {
			w.showClient(c)
		}
	}
	for i, l := range w.users {
		u := *l.of
		u.Account = accountOf(l.of)
		var err error
		if moving.NeedsImport(l.of) {
			err = w.importLine(ctx, l.line, &u, u.Account)
		} else if err = w.createUser(ctx, u); err != nil {
			err = storeError(l.line, "user", u.Username, err)
		}
		if err != nil {
			return err
		}
		w.made[l.line] = map[string]any{"user": u}
		if i == 0 && !w.byTest {
			w.demo.Username, w.demo.Password, w.demo.Operator = u.Username, revealed(u.Password), u.Operator && !u.Disabled
		}
	}
	for _, l := range w.silent {
		r := *l.of
		r.Account = cmp.Or(r.Account, w.demo.Account)
		if err := w.importLine(ctx, l.line, &r, r.Account); err != nil {
			return err
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
	for _, l := range w.tokens {
		if moving.NeedsImport(l.of) {
			if err := w.importLine(ctx, l.line, w.tokenToImport(*l.of)); err != nil {
				return err
			}
			continue
		}
		answer, err := w.issue(ctx, l.of)
		if err != nil {
			param, text, exists := dev.Explain(err)
			return &seedError{line: l.line, param: "token" + asMember(param), hint: "correct the token", exists: exists,
				err: fmt.Errorf("token%s: %s", asMember(param), strings.TrimSuffix(text, "."))}
		}
		w.made[l.line] = map[string]any{"token": answer}
	}
	return nil
}

func revealed(s *moving.Secret) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

// createUser creates a user with any password, with the hash of one, or with neither.
func (w *seeder) createUser(ctx context.Context, u moving.User) error {
	spec := store.UserSpec{Username: u.Username, Account: u.Account, Password: revealed(u.Password), Operator: u.Operator}
	var err error
	if u.PasswordHash.IsZero() {
		_, err = w.to.CreateFixtureUser(ctx, spec)
	} else {
		err = w.createHashed(ctx, spec, u.PasswordHash)
	}
	if err == nil && u.Disabled {
		_, err = w.to.DisableUser(ctx, u.Username)
	}
	return err
}

// createHashed creates a user with the password hash of another system, as an import does that
// allows every kind.
func (w *seeder) createHashed(ctx context.Context, spec store.UserSpec, hash moving.Hash) error {
	v, err := snapshot.Parse(hash.JSON, 2)
	if err == nil {
		spec.Hash, err = secret.ParseForeign(v)
	}
	if err != nil {
		return &record.InvalidError{Field: "password_hash", Reason: "password_hash " + err.Error(), Hint: "give a hash of a known kind, or the password"}
	}
	if spec.Hash, err = secret.NewQuickHasher().Wrap(ctx, secret.Caller{}, spec.Hash); err != nil {
		return err
	}
	_, _, err = w.to.CreateUser(ctx, spec)
	return err
}

// issue issues the tokens of a line. A seed may leave out the client and the user.
func (w *seeder) issue(ctx context.Context, t *moving.Token) (dev.TokenAnswer, error) {
	d := dev.Token{ClientID: orNil(t.ClientID), Username: orNil(t.Username), ExpiresIn: t.ExpiresIn, RefreshExpiresIn: t.RefreshExpiresIn, AccessToken: (*string)(t.AccessToken), RefreshToken: (*string)(t.RefreshToken)}
	if t.Scope != nil {
		d.Scope = *t.Scope
	}
	for at, in := range map[*int64]**int64{t.ExpiresAt: &d.ExpiresIn, t.RefreshExpiresAt: &d.RefreshExpiresIn} {
		if at != nil {
			left := *at - w.to.Now().Unix()
			*in = &left
		}
	}
	return d.Issue(ctx, w.to, &w.demo)
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// showClient has the ready line show the first platform client, and the first other one.
func (w *seeder) showClient(c moving.Client) {
	switch {
	case c.Platform && w.demo.PlatformClientID == "":
		w.demo.PlatformClientID, w.demo.PlatformSecret = c.ClientID, revealed(c.ClientSecret)
	case !c.Platform && w.demo.ClientID == "":
		w.demo.ClientID, w.demo.ClientSecret = c.ClientID, revealed(c.ClientSecret)
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
	return map[string]any{"resource": moving.Resource{Kind: kind, ID: event.Resource, Object: event.EventData.Object, Account: event.Owner, CreatedAt: &event.CreatedAt, Action: action, Event: event.ID}}, nil
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

// createClient creates a client with any secret, and returns its line with what was drawn.
func (w *seeder) createClient(ctx context.Context, c moving.Client) (moving.Client, error) {
	spec := store.ClientSpec{Name: cmp.Or(c.Name, c.ClientID), RedirectURIs: c.RedirectURIs, Grants: c.Grants, Scopes: c.Scopes, Public: c.Public, Introspect: c.Introspect, Consent: c.Consent, Account: c.Account, Platform: c.Platform} // screens always show a name
	sec := secret.New(w.random, secret.ClientSecret)
	switch {
	case revealed(c.ClientSecret) == "":
	case c.Public:
		return c, &record.InvalidError{Field: "client_secret", Reason: "a public client has no secret", Hint: "leave out client_secret, or public"}
	default:
		var ok bool
		if sec, ok = secret.Fixture(revealed(c.ClientSecret)); !ok {
			return c, &record.InvalidError{Field: "client_secret", Reason: fmt.Sprintf("a client secret has 1 to %d bytes without control characters", secret.FixtureSizeMax),
				Hint: "leave it out to get a new one"}
		}
	}
	made, err := w.to.CreateFixedClient(ctx, c.ClientID, sec, spec)
	if err == nil && c.Disabled {
		_, err = w.to.DisableClient(ctx, made.ID)
	}
	if err != nil {
		return c, err
	}
	var shown moving.Secret
	if !c.Public {
		shown = moving.Secret(sec.Reveal())
	}
	c.ClientID, c.ClientSecret = made.ID, &shown
	return c, nil
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
