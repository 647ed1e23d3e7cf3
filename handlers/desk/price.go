package desk

import (
	"slices"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/webhook"
	"tollhouse/store/webhook/target"
	"tollhouse/views"
)

// price says what a form takes away, in numbers. Its result has no price if nobody loses
// anything: then the operator is not asked. Errors: record.ErrNotFound if the record does not
// exist.
type price func(v *posted) (cost, error)

// cost is what a form takes away, and the address without the change.
type cost struct {
	price views.Price
	back  string
}

// lostOf counts access.
func lostOf(list []store.Access, more bool) views.Lost {
	lost, users := views.Lost{More: more}, map[string]bool{}
	for _, a := range list {
		lost.Authorizations += a.Families
		if a.UserID != "" {
			users[a.UserID] = true
		}
	}
	lost.Users = len(users)
	return lost
}

// accessLost lists the first access that ends, and counts all of it with the webhook endpoints that
// are disabled.
func (v *visit) accessLost(want store.FamilyFilter, bound func(webhook.Endpoint) bool) ([]store.Access, views.Lost, error) {
	list, next, err := v.s.site.Store.ListAccess(v.ctx, want, "")
	if err != nil {
		return nil, views.Lost{}, err
	}
	lost := lostOf(list, next != "")
	lost.Webhooks, err = v.endpointsLost(bound)
	return list, lost, err
}

// endpointsLost counts the webhook endpoints that are disabled.
func (v *visit) endpointsLost(bound func(webhook.Endpoint) bool) (endpoints int, err error) {
	err = v.s.site.Store.Webhooks.Each(v.ctx, func(e webhook.Endpoint) error {
		if e.Enabled() && bound(e) {
			endpoints++
		}
		return nil
	})
	return endpoints, err
}

func (v *visit) accessOfClient(c store.Client) ([]store.Access, views.Lost, error) {
	return v.accessLost(store.FamilyFilter{ClientID: c.ID}, func(e webhook.Endpoint) bool { return e.Client == c.ID })
}

func (v *visit) accessOfUser(u store.User) ([]store.Access, views.Lost, error) {
	return v.accessLost(store.FamilyFilter{User: &u}, func(e webhook.Endpoint) bool { return e.User == u.Subject() })
}

func priceOfClientDisable(v *posted) (cost, error) {
	c, err := v.clientOf()
	if err != nil || !c.DisabledAt.IsZero() {
		return cost{}, err
	}
	_, lost, err := v.accessOfClient(c)
	return cost{views.ClientDisabled{Name: c.Name, Secrets: c.Secrets(), Lost: lost}, below(clientsPath, c.ID)}, err
}

// priceOfRotation asks only if a secret stops working.
func priceOfRotation(v *posted) (cost, error) {
	c, err := v.clientOf()
	if err != nil || c.Public {
		return cost{}, err
	}
	p := views.ClientSecretRotated{Name: c.Name, Secrets: c.Secrets(), Revoked: v.form.Has("revoke_tokens")}
	if p.Revoked {
		_, p.Lost, err = v.accessOfClient(c)
	} else if p.Secrets == 1 {
		return cost{}, nil
	}
	return cost{p, below(clientsPath, c.ID)}, err
}

// priceOfClientUpdate asks only if the client may do less afterwards.
func priceOfClientUpdate(v *posted) (cost, error) {
	c, err := v.clientOf()
	if err != nil {
		return cost{}, err
	}
	now, then := v.askedOf(c).spec, v.askedClient().spec
	if len(then.Grants) == 0 || len(then.Scopes) == 0 {
		return cost{}, nil // refused by the handler
	}
	gone := func(now, then []string) []string {
		return slices.DeleteFunc(slices.Clone(now), func(s string) bool { return slices.Contains(then, s) })
	}
	p := views.ClientNarrowed{
		Name: c.Name, Scopes: gone(now.Scopes, then.Scopes), Grants: gone(now.Grants, then.Grants), RedirectURIs: gone(now.RedirectURIs, then.RedirectURIs),
		Introspection: now.Introspect && !then.Introspect, Consent: now.Consent == store.ConsentRemember && then.Consent != now.Consent,
	}
	if then.Account != now.Account {
		p.Account = now.Account
	}
	if len(p.Scopes)+len(p.Grants)+len(p.RedirectURIs) == 0 && !p.Introspection && !p.Consent && p.Account == "" {
		return cost{}, nil
	}
	list, next, err := v.s.site.Store.ListAccess(v.ctx, store.FamilyFilter{ClientID: c.ID}, "")
	if err != nil {
		return cost{}, err
	}
	p.Lost = lostOf(list, next != "")
	endPush := c.Account != then.Account && c.Account != "" || !slices.Contains(then.Scopes, "events:read") || !slices.Contains(then.Scopes, "webhooks:write")
	p.Lost.Webhooks, err = v.endpointsLost(func(e webhook.Endpoint) bool { return endPush && e.Client == c.ID })
	return cost{p, below(clientsPath, c.ID)}, err
}

// browsersOf counts the browsers that a user is signed in with.
func (v *visit) browsersOf(u store.User) (int, error) {
	sessions, err := v.s.site.Store.ListSessions(v.ctx, u)
	return len(sessions), err
}

func priceOfUserDisable(v *posted) (cost, error) {
	u, err := v.userOf()
	if err != nil || !u.DisabledAt.IsZero() || v.isSelf(u) {
		return cost{}, err
	}
	browsers, err := v.browsersOf(u)
	if err != nil {
		return cost{}, err
	}
	_, lost, err := v.accessOfUser(u)
	return cost{views.UserDisabled{Username: u.Username, Browsers: browsers, Lost: lost}, usersPath + "/" + u.Subject()}, err
}

func priceOfDemotion(v *posted) (cost, error) {
	u, err := v.userOf()
	if err != nil || !u.Operator || v.isSelf(u) {
		return cost{}, err
	}
	browsers, err := v.browsersOf(u)
	return cost{views.UserDemoted{Username: u.Username, Browsers: browsers}, usersPath + "/" + u.Subject()}, err
}

func priceOfSignOut(v *posted) (cost, error) {
	u, err := v.userOf()
	if err != nil {
		return cost{}, err
	}
	browsers, err := v.browsersOf(u)
	return cost{views.UserSignedOut{Username: u.Username, Browsers: browsers, Self: v.isSelf(u)}, usersPath + "/" + u.Subject()}, err
}

func priceOfFactorReset(v *posted) (cost, error) {
	u, err := v.userOf()
	if err != nil || !u.HasFactor() || v.isSelf(u) || !v.session.Amr.HasFactor() {
		return cost{}, err
	}
	browsers, err := v.browsersOf(u)
	return cost{views.FactorReset{Username: u.Username, Browsers: browsers}, usersPath + "/" + u.Subject()}, err
}

// priceOfUserCode asks only if an earlier code is still good.
func priceOfUserCode(v *posted) (cost, error) {
	u, err := v.userOf()
	if err != nil || !v.now.Before(u.CodeEnds()) || !u.DisabledAt.IsZero() {
		return cost{}, err
	}
	return cost{views.UserCodeReplaced{Username: u.Username, Ends: web.Moment(u.CodeEnds(), v.now)}, usersPath + "/" + u.Subject()}, nil
}

func priceOfSession(v *posted) (cost, error) {
	sn, err := v.s.site.Store.FindSessionNamed(v.ctx, web.PathParam(v.r, "id"))
	if err != nil {
		return cost{}, err
	}
	return cost{views.BrowserSignedOut{Username: sn.User.Username, Seen: web.Moment(sn.SeenAt, v.now), Here: sn.Is(v.session.Token)}, accessPath}, nil
}

func priceOfFamily(v *posted) (cost, error) {
	f, live, err := v.s.site.Store.FindFamily(v.ctx, web.PathParam(v.r, "id"))
	if err != nil {
		return cost{}, err
	}
	p, want := views.AccessRevoked{Client: f.ClientName, Account: f.Account}, store.FamilyFilter{ClientID: f.ClientID, Account: f.Account}
	if f.UserID != "" {
		u, err := v.s.site.Store.FindUserBySubject(v.ctx, f.UserID)
		if err != nil {
			return cost{}, err
		}
		p.Username, want = u.Username, store.FamilyFilter{ClientID: f.ClientID, User: &u}
	}
	var list []store.Access
	next, all := "", v.form.Has("all")
	if all {
		list, next, err = v.s.site.Store.ListAccess(v.ctx, want, "")
	} else if live {
		list = []store.Access{{Family: f, Families: 1}}
	}
	if err != nil {
		return cost{}, err
	}
	p.Lost = lostOf(list, next != "")
	p.Lost.Webhooks, err = v.endpointsLost(func(e webhook.Endpoint) bool { return f.Owns(e, all) })
	if err != nil || len(list) == 0 && p.Lost.Webhooks == 0 {
		return cost{}, err // it has ended
	}
	return cost{p, accessPath}, nil
}

func priceOfWebhookDisable(v *posted) (cost, error) {
	e, err := v.webhookOf()
	if err != nil || !e.Enabled() {
		return cost{}, err
	}
	waiting, err := v.waitingFor(&e)
	return cost{views.WebhookDisabled{Origin: target.Origin(e.URL), Account: e.Account, Waiting: waiting}, below(deskWebhooksPath, e.ID)}, err
}

// waitingFor counts the events that wait for an endpoint.
func (v *visit) waitingFor(e *webhook.Endpoint) (views.Waiting, error) {
	n, err := v.s.site.Store.Webhooks.Waiting(v.ctx, e, webhook.WaitingMax)
	return views.Waiting{Events: n.Events, More: n.More}, err
}

// priceOfWebhookEnable asks only if waiting events are skipped.
func priceOfWebhookEnable(v *posted) (cost, error) {
	e, err := v.webhookOf()
	if err != nil || e.Enabled() || !v.form.Has("now") {
		return cost{}, err
	}
	waiting, err := v.waitingFor(&e)
	return cost{views.WaitingSkipped{Origin: target.Origin(e.URL), Waiting: waiting}, below(deskWebhooksPath, e.ID)}, err
}

func priceOfSkip(v *posted) (cost, error) {
	e, err := v.webhookOf()
	if err != nil || e.Head == nil || v.form.Has("event") && e.Head.Event != v.form.Value("event") {
		return cost{}, err
	}
	return cost{views.EventSkipped{Event: e.Head.Event, Type: e.Head.Type, Attempts: e.Head.Attempts}, below(deskWebhooksPath, e.ID)}, nil
}

func priceOfWebhookRotation(v *posted) (cost, error) {
	e, err := v.webhookOf()
	if err != nil || !v.form.Has("leaked") {
		return cost{}, err
	}
	return cost{views.WebhookSecretEnded{Origin: target.Origin(e.URL), Secrets: len(e.Secrets)}, below(deskWebhooksPath, e.ID)}, nil
}

func priceOfHold(v *posted) (cost, error) {
	in, err := v.s.site.Store.Webhooks.Instance(v.ctx)
	if err != nil || in.Held {
		return cost{}, err
	}
	p, err := v.held()
	return cost{p, deskWebhooksPath}, err
}

// held counts the endpoints that a hold stops.
func (v *visit) held() (p views.DeliveriesHeld, err error) {
	accounts := map[string]bool{}
	err = v.s.site.Store.Webhooks.Each(v.ctx, func(e webhook.Endpoint) error {
		if e.Enabled() {
			p.Webhooks++
			accounts[e.Account] = true
		}
		return nil
	})
	p.Accounts = len(accounts)
	return p, err
}
