package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// The operations of TestSimulation, and its models of sessions and of a log. That of
// tokens is in model_test.go.

// simulatedKind is a kind of operation. run returns its outcome, or "" if there is
// nothing to do it to.
type simulatedKind struct {
	name   string
	weight int
	run    func(*simulation) string
}

func simulatedKinds() (names []string) {
	for _, k := range simulatedOperations() {
		names = append(names, k.name)
	}
	return names
}

func simulatedOperations() []simulatedKind {
	return []simulatedKind{
		{"issue for a password", 6, func(s *simulation) string { s.stepPassword(s); return "done" }},
		{"import tokens", 4, func(s *simulation) string { s.stepImport(s, s.client()); return "done" }},
		{"allow", 20, func(s *simulation) string { s.stepAllow(s, s.client(), s.rng.IntN(2) == 0); return "done" }},
		{"allow without asking", 8, (*simulation).allowRemembered},
		{"redeem", 40, func(s *simulation) string {
			c, any := recent(s, s.codes)
			if any {
				client := c.client
				if s.rng.IntN(8) == 0 {
					client = s.client()
				}
				s.stepRedeem(s, c, client, c.pkce != (s.rng.IntN(8) == 0))
			}
			return ifAny(any)
		}},
		{"refresh", 60, onRecentRefresh(func(s *simulation, r *modelRefresh) { s.stepRefresh(s, r, s.clientOf(r.family)) })},
		{"use", 40, onRecentAccess(func(s *simulation, a *modelAccess) { s.stepUse(s, a) })},
		{"introspect", 10, onRecentAccess(func(s *simulation, a *modelAccess) { s.stepInspect(s, a, s.clientOf(a.family)) })},
		{"revoke a refresh token", 3, onRecentRefresh(func(s *simulation, r *modelRefresh) { s.stepRevoke(s, r, s.clientOf(r.family)) })},
		{"revoke an access token", 6, onRecentAccess(func(s *simulation, a *modelAccess) { s.stepRevokeAccess(s, a, s.clientOf(a.family)) })},
		{"revoke what was granted", 2, func(s *simulation) string { s.stepRevokeGranted(s, s.client()); return "done" }},
		{"end a user's tokens", 1, func(s *simulation) string {
			s.stepEnd(s)
			for _, sn := range s.sessions {
				sn.ended = true
			}
			return "done"
		}},
		{"issue for a client", 6, (*simulation).issueForClient},
		{"use for a client", 6, func(s *simulation) string {
			a, any := recent(s, s.machines)
			if any {
				s.stepUse(s, a)
			}
			return ifAny(any)
		}},
		{"revoke for a client", 2, func(s *simulation) string {
			a, any := recent(s, s.machines)
			if any {
				s.stepRevokeAccess(s, a, 2)
			}
			return ifAny(any)
		}},
		{"sign in", 6, (*simulation).signIn},
		{"find a session", 12, (*simulation).findSession},
		{"sign out", 3, (*simulation).signOut},

		{"record an event", 30, (*simulation).recordEvent},
		{"change a resource", 40, (*simulation).changeResource},
		{"import an event", 12, (*simulation).importEvent},
		{"purge", 2, (*simulation).purge},
		{"find an event", 6, (*simulation).findEvent},
		{"deliver", 12, (*simulation).deliver},

		{"clock", 25, (*simulation).stepClock},
		{"write uses", 15, func(s *simulation) string { s.flush(); return "done" }},
		{"outage", 3, (*simulation).outage},
		{"crash", 3, func(s *simulation) string { s.crash(); return "done" }},
		{"restart", 2, func(s *simulation) string {
			s.f.Faults.Repair()
			s.flush()
			s.house.Restart(s)
			s.enter()
			return "done"
		}},
	}
}

func ifAny(any bool) string {
	if any {
		return "done"
	}
	return ""
}

// recent draws one of a list, mostly of the latest.
func recent[T any](s *simulation, list []T) (one T, any bool) {
	n := len(list)
	if n == 0 {
		return one, false
	}
	if s.rng.IntN(4) > 0 {
		return list[n-1-s.rng.IntN(min(n, 4))], true
	}
	return list[s.rng.IntN(n)], true
}

func onRecentRefresh(step func(*simulation, *modelRefresh)) func(*simulation) string {
	return func(s *simulation) string { return onRecent(s, s.refresh, step) }
}

func onRecentAccess(step func(*simulation, *modelAccess)) func(*simulation) string {
	return func(s *simulation) string { return onRecent(s, s.access, step) }
}

func onRecent[T any](s *simulation, list []T, step func(*simulation, T)) string {
	one, any := recent(s, list)
	if any {
		step(s, one)
	}
	return ifAny(any)
}

// client draws one of those that act for a user.
func (s *simulation) client() int { return min(s.rng.IntN(3), 1) }

// clientOf is mostly the client of a family.
func (s *simulation) clientOf(fam *modelFamily) int {
	if s.rng.IntN(12) == 0 {
		return 1 - fam.client
	}
	return fam.client
}

func (s *simulation) stepClock() string {
	short := []time.Duration{tick, time.Second, lives.RefreshGrace, lives.RefreshGrace + tick, lives.Code, 6 * time.Minute}
	rare := []time.Duration{lives.AccessToken, lives.AccessToken, lives.AccessToken, lives.SessionIdle, lives.RefreshToken, 31 * 24 * time.Hour}
	back := []time.Duration{-tick, -time.Second, -lives.RefreshGrace, -time.Hour}
	var by time.Duration
	switch s.rng.IntN(10) {
	case 0:
		by = rare[s.rng.IntN(len(rare))]
	case 1:
		by = back[s.rng.IntN(len(back))]
	default:
		by = short[s.rng.IntN(len(short))]
	}
	s.house.Clock.Advance(by)
	s.seen["clock steps"]++
	return by.String()
}

// outage: an engine that answers nothing is not taken for one in which nothing is.
func (s *simulation) outage() string {
	s.f.Faults.Break(kv.ErrUnavailable)
	defer s.f.Faults.Repair()
	ctx := context.Background()
	_, find := s.f.FindUser(ctx, modelUser)
	_, list := s.f.Events.ListEvents(ctx, simulatedAccount, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1}, nil)
	errs := []error{find, list}
	if len(s.access) > 0 {
		_, err := s.f.FindPrincipal(ctx, s.access[0].token)
		errs = append(errs, err)
	}
	if len(s.refresh) > 0 {
		_, err := s.f.RotateRefresh(ctx, store.Refresh{Client: s.clients[0], Token: s.refresh[0].token})
		errs = append(errs, err)
	}
	for i, err := range errs {
		if !errors.Is(err, record.ErrUnavailable) {
			s.Fatalf("call %d in an outage = %v, want ErrUnavailable", i, err)
		}
	}
	return "done"
}

// allowRemembered asks for a code without asking the user.
func (s *simulation) allowRemembered() string {
	at, stands := s.given[1]
	stands = stands && s.f.Now().Before(at.Add(365*24*time.Hour))
	c := &modelCode{client: 1, pkce: true, expires: s.f.Now().Add(lives.Code)}
	var err error
	c.token, err = s.f.AllowRemembered(context.Background(), store.Consent{Client: s.clients[1], User: s.user(s), RedirectURI: storetest.CallbackURI, Challenge: challenge})
	switch lost, _ := s.lost(err); {
	case lost:
		return "lost"
	case stands != (err == nil) || err != nil && !errors.Is(err, record.ErrNotFound):
		s.Fatalf("AllowRemembered() = %v, want a code %t", err, stands)
	case stands:
		s.codes = append(s.codes, c)
	}
	return fmt.Sprint(stands)
}

func (s *simulation) issueForClient() string {
	issued, err := s.f.IssueForClient(context.Background(), store.By{}, s.clients[2], "", store.ScopeUnstated)
	if lost, _ := s.lost(err); lost {
		return "lost"
	}
	must.Do(s, err)
	s.machines = append(s.machines, &modelAccess{token: issued.AccessToken, family: &modelFamily{client: 2}, expires: s.f.Now().Add(lives.AccessToken)})
	return "done"
}

// modelSession is a sign-in of the user.
type modelSession struct {
	token       secret.Token
	begun, seen time.Time
	pending     bool // it was seen, which is not yet written
	ended       bool
}

func (m *modelSession) lives(now time.Time) bool {
	return !m.ended && now.Before(m.begun.Add(lives.Session)) && now.Before(m.seen.Add(lives.SessionIdle))
}

func (s *simulation) signIn() string {
	var old *modelSession
	var token secret.Token
	if one, any := recent(s, s.sessions); any && s.rng.IntN(3) == 0 {
		old, token = one, one.token
	}
	now := s.f.Now()
	token, _, err := s.f.CreateSession(context.Background(), store.By{}, s.user(s), token, "")
	lost, committed := s.lost(err)
	if !lost {
		must.Do(s, err)
		s.sessions = append(s.sessions, &modelSession{token: token, begun: now, seen: now})
	}
	if old != nil && (!lost || committed) {
		old.ended = true
	}
	return "done"
}

func (s *simulation) findSession() string {
	sn, any := recent(s, s.sessions)
	if !any {
		return ""
	}
	now := s.f.Now()
	want := sn.lives(now)
	_, err := s.f.FindSession(context.Background(), sn.token)
	if want != (err == nil) || err != nil && !errors.Is(err, record.ErrNotFound) {
		s.Fatalf("FindSession() = %v, want it live %t", err, want)
	}
	sn.pending = sn.pending || want && now.Sub(sn.seen) >= 5*time.Minute
	return fmt.Sprint(want)
}

func (s *simulation) signOut() string {
	sn, any := recent(s, s.sessions)
	if !any {
		return ""
	}
	others := s.rng.IntN(3) == 0
	call := func() error { return s.f.DeleteSession(context.Background(), sn.token) }
	if u := s.user(s); others {
		call = func() error {
			_, err := s.f.DeleteOtherSessions(context.Background(), u, sn.token)
			return err
		}
	}
	s.insist(s, call)
	for _, other := range s.sessions {
		other.ended = other.ended || others != (other == sn)
	}
	return fmt.Sprint(others)
}

const simulatedAccount = "acct_larkspur"

// modelEvent is an event as its account sees it.
type modelEvent struct {
	ID, Type, Resource string
	N                  int   // of the snapshot
	at                 int64 // createdAt of an imported one, which stands before all others
}

func (e modelEvent) kind() string { kind, _, _ := strings.Cut(e.Type, "."); return kind }

// modelLog is the log of the account.
type modelLog struct {
	events   []*modelEvent // in the log's order; an id that no caller has learned is ""
	imported map[string]*modelEvent
	begun    time.Time
	endpoint webhook.Endpoint
	cursor   record.Position
}

const endpointTypes = "widget.*"

func newModelLog(s *simulation) *modelLog {
	ctx := context.Background()
	l := &modelLog{imported: map[string]*modelEvent{}, begun: s.f.Now()}
	made, _, err := s.f.Webhooks.Create(ctx, webhook.System, simulatedAccount, webhook.Settings{URL: "https://hooks.example/in", Types: []string{endpointTypes}})
	must.Do(s, err)
	l.endpoint, l.cursor = made, made.Cursor
	for _, e := range l.read(s) {
		l.events = append(l.events, &e)
	}
	return l
}

// read returns the log in pages of any size.
func (l *modelLog) read(s *simulation) (events []modelEvent) {
	f := eventlog.Filter{To: eventlog.CreatedAtMax, Ascending: true}
	for {
		f.Limit = 1 + s.rng.IntN(200)
		page := must.Get(s.f.Events.ListEvents(context.Background(), simulatedAccount, f, nil))(s)
		var rows []struct {
			ID, Type, Resource string
			EventData          struct{ Object struct{ N int } }
		}
		must.Do(s, json.Unmarshal([]byte("["+strings.TrimSuffix(string(page.Data), ",")+"]"), &rows))
		for _, row := range rows {
			events = append(events, modelEvent{ID: row.ID, Type: row.Type, Resource: row.Resource, N: row.EventData.Object.N})
		}
		if !page.More {
			return events
		}
		f.After = eventlog.CursorAt(page.Next)
	}
}

// compare checks that the log has every event once and in order, and learns the ids of
// those whose answers were lost.
func (l *modelLog) compare(s *simulation) {
	s.Helper()
	got := l.read(s)
	if len(got) != len(l.events) {
		s.Fatalf("the log has %d events, want %d", len(got), len(l.events))
	}
	for i, want := range l.events {
		if want.ID == "" {
			want.ID = got[i].ID
		}
		if e := got[i]; e.ID != want.ID || e.Type != want.Type || e.Resource != want.Resource || e.N != want.N {
			s.Fatalf("event %d is %+v, want %+v", i, e, *want)
		}
	}
}

// state is the resource as its events leave it.
func (l *modelLog) state(kind, id string) (n int, exists bool) {
	for _, e := range slices.Backward(l.events) {
		if e.Resource == id && e.kind() == kind {
			return e.N, !strings.HasSuffix(e.Type, ".deleted")
		}
	}
	return 0, false
}

var simulatedResources = []string{"r1", "r2", "r3"}

var simulatedResourceKinds = []string{"widget", "gadget"}

// check compares the log, its resources, its counts by type and the endpoint's cursor.
func (l *modelLog) check(s *simulation) {
	s.Helper()
	ctx := context.Background()
	l.compare(s)
	counts := map[string]uint64{}
	for _, e := range l.events {
		counts[e.Type]++
	}
	types, _, err := s.f.Events.ListEventTypes(ctx, simulatedAccount)
	must.Do(s, err)
	got := map[string]uint64{}
	for _, use := range types {
		if use.Count > 0 {
			got[use.Name] = use.Count
		}
	}
	if !maps.Equal(got, counts) {
		s.Fatalf("the counts by type are %v, want %v", got, counts)
	}
	for _, kind := range simulatedResourceKinds {
		for _, id := range simulatedResources {
			n, exists := l.state(kind, id)
			found, err := s.f.Events.FindResource(ctx, simulatedAccount, kind, id)
			if exists != (err == nil) || err != nil && !errors.Is(err, record.ErrNotFound) {
				s.Fatalf("FindResource(%s %s) = %v, want it to exist: %t", kind, id, err, exists)
			}
			if exists && string(found.JSON) != widget(kind, id, n) {
				s.Fatalf("FindResource(%s %s) = %s, want %s", kind, id, found.JSON, widget(kind, id, n))
			}
		}
	}
	if e := must.Get(s.f.Webhooks.Load(ctx, l.endpoint.ID))(s); e.Cursor != l.cursor {
		s.Fatalf("the endpoint's cursor is %v, want %v", e.Cursor, l.cursor)
	}
}

func widget(kind, id string, n int) string {
	return fmt.Sprintf(`{"id":%q,"object":%q,"n":%d}`, id, kind, n)
}

// draw returns a resource, and a snapshot of it.
func (l *modelLog) draw(s *simulation) (kind, id string, n int) {
	return simulatedResourceKinds[s.rng.IntN(2)], simulatedResources[s.rng.IntN(3)], s.rng.IntN(3)
}

// add appends an event that was recorded now.
func (l *modelLog) add(e modelEvent) { l.events = append(l.events, &e) }

func (s *simulation) parse(text string) snapshot.Value {
	return must.Get(snapshot.Parse([]byte(text), snapshot.DepthMax))(s)
}

func (s *simulation) recordEvent() string {
	kind, id, n := s.log.draw(s)
	e := modelEvent{Type: kind + "." + []string{"created", "updated", "seen", "deleted"}[s.rng.IntN(4)], Resource: id, N: n}
	wire, err := s.f.Events.RecordEvent(context.Background(), eventlog.NewEvent{Owner: simulatedAccount, Type: e.Type, Resource: id, Source: "test", Location: "api", Object: s.parse(widget(kind, id, n))})
	switch lost, committed := s.lost(err); {
	case lost && !committed:
		return "lost"
	case !lost:
		must.Do(s, err)
		must.Do(s, json.Unmarshal(wire, &struct{ ID *string }{&e.ID}))
	}
	s.log.add(e)
	return e.Type
}

func (s *simulation) changeResource() string {
	ctx, l := context.Background(), s.log
	kind, id, n := l.draw(s)
	before, exists := l.state(kind, id)
	c := eventlog.ResourceChange{Owner: simulatedAccount, Kind: kind, ID: id, Source: "test", Location: "api"}
	e := modelEvent{Type: kind + ".updated", Resource: id, N: n}
	var want error
	var changed eventlog.Changed
	var err error
	records := true
	switch s.rng.IntN(5) {
	case 0, 1:
		if records = !exists || before != n; !exists {
			e.Type = kind + ".created"
		}
		changed, err = s.f.Events.PutResource(ctx, c, s.parse(widget(kind, id, n)))
	case 2, 3:
		if records = before != n; !exists {
			want = record.ErrNotFound
		}
		changed, err = s.f.Events.PatchResource(ctx, c, s.parse(fmt.Sprintf(`{"n":%d}`, n)))
	default:
		if e.Type, e.N = kind+".deleted", before; !exists {
			want = record.ErrNotFound
		}
		changed, err = s.f.Events.DeleteResource(ctx, c)
	}
	lost, committed := s.lost(err)
	switch {
	case lost && !committed:
		return "lost"
	case !lost && !errors.Is(err, want):
		s.Fatalf("the change of %s %s to %d, was %d %t = %v, want %v", kind, id, n, before, exists, err, want)
	case want != nil || !records:
		if changed.Recorded != "" {
			s.Fatalf("a change of nothing was recorded as %s", changed.Recorded)
		}
		return "nothing"
	case !lost && changed.Recorded == "":
		s.Fatalf("the change of %s %s to %d, was %d %t, was not recorded", kind, id, n, before, exists)
	}
	e.ID = changed.Recorded
	l.add(e)
	return e.Type
}

// importEvent imports an event of before the simulation began, or one again.
func (s *simulation) importEvent() string {
	kind, id, n := s.log.draw(s)
	e := &modelEvent{ID: fmt.Sprintf("other-%d", len(s.log.imported)), Type: kind + "." + []string{"created", "updated", "deleted"}[s.rng.IntN(3)], Resource: id, N: n}
	e.at = s.log.begun.Unix() - 1_000_000 + 1000*int64(s.rng.IntN(900)) + int64(len(s.log.imported))%1000
	known := false
	if s.rng.IntN(4) == 0 {
		for _, other := range s.log.events {
			if other.at != 0 {
				e, known = other, true
			}
		}
	}
	var summary eventlog.ImportSummary
	tries := 0
	s.insist(s, func() error {
		tries++
		im, err := s.f.Events.NewImporter(simulatedAccount, eventlog.ImportOptions{})
		if err != nil {
			return err
		}
		line := fmt.Sprintf(`{"id":%q,"type":%q,"resource":%q,"eventData":{"object":%s},"createdAt":%d}`, e.ID, e.Type, e.Resource, widget(e.kind(), e.Resource, e.N), e.at)
		refused, err := im.Add(context.Background(), []byte(line), 0)
		if err == nil && len(refused) == 0 {
			refused, err = im.Flush(context.Background())
		}
		if len(refused) > 0 {
			s.Fatalf("import %s: %v", line, refused)
		}
		summary = im.Summary()
		return err
	})
	wantNew := !known && !(tries > 1 && s.committed)
	if wantNew != (summary.Recorded == 1) || summary.Recorded+summary.Unchanged != 1 {
		s.Fatalf("import = %+v, want a new event: %t", summary, wantNew)
	}
	if known {
		return "known"
	}
	l := s.log
	l.imported[e.ID] = e
	at, _ := slices.BinarySearchFunc(l.events, e, func(other, e *modelEvent) int {
		if other.at == 0 {
			return 1
		}
		return int(other.at - e.at)
	})
	l.events = slices.Insert(l.events, at, e)
	return e.Type
}

func (s *simulation) purge() string {
	p := eventlog.Purge{Account: simulatedAccount}
	if s.rng.IntN(4) > 0 {
		p.Kind, p.Resource, _ = s.log.draw(s)
	}
	s.insist(s, func() error { _, err := s.f.PurgeEvents(context.Background(), store.By{}, p); return err })
	s.log.events = slices.DeleteFunc(s.log.events, func(e *modelEvent) bool {
		return p.Resource == "" || e.Resource == p.Resource && e.kind() == p.Kind
	})
	return p.Kind + p.Resource
}

func (s *simulation) findEvent() string {
	e, any := recent(s, s.log.events)
	if !any || e.ID == "" {
		return ""
	}
	wire := must.Get(s.f.Events.FindEvent(context.Background(), simulatedAccount, e.ID, nil))(s)
	var got modelEvent
	must.Do(s, json.Unmarshal(wire, &got))
	if got.ID != e.ID || got.Type != e.Type || got.Resource != e.Resource {
		s.Fatalf("FindEvent(%s) = %s, want %+v", e.ID, wire, *e)
	}
	return e.Type
}

// deliver reads what an endpoint is due and settles it. An event that was settled is
// never given again, and none is passed over.
func (s *simulation) deliver() string {
	ctx, l := context.Background(), s.log
	e := must.Get(s.f.Webhooks.Load(ctx, l.endpoint.ID))(s)
	if e.Cursor != l.cursor {
		s.Fatalf("the endpoint's cursor is %v, want %v", e.Cursor, l.cursor)
	}
	l.compare(s)
	var want []string
	for _, event := range l.events {
		if p, native := record.ParsePosition(event.ID); native && event.kind() == "widget" && p.Compare(l.cursor) > 0 {
			want = append(want, event.ID)
		}
	}
	limit := 1 + s.rng.IntN(20)
	next := must.Get(s.f.Webhooks.Next(ctx, &e, e.Cursor, limit))(s)
	var got []string
	for _, event := range next.Events {
		got = append(got, event.ID)
	}
	if want = want[:min(limit, len(want))]; !slices.Equal(got, want) {
		s.Fatalf("the endpoint is due %q, want %q", got, want)
	}
	_, err := s.f.Webhooks.Settle(ctx, &e, webhook.Progress{Cursor: next.Passed})
	lost, committed := s.lost(err)
	if !lost {
		must.Do(s, err)
	}
	if !lost || committed {
		l.cursor = record.LaterOf(l.cursor, next.Passed)
	}
	return fmt.Sprint(len(got))
}
