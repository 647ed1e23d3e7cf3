package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
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

const (
	hook    = "https://hooks.example.com:8443/in?token=abc"
	account = "acct_1"
)

// made is an endpoint with the store that it is in.
type made struct {
	*storetest.Fixture
	id    string
	token secret.Token
}

// makeEndpoint returns a store whose account has an endpoint, which an operator made.
func makeEndpoint(t *testing.T, change ...func(*webhook.Settings)) made {
	t.Helper()
	return addEndpoint(t, storetest.New(t), webhook.System, change...)
}

func addEndpoint(t *testing.T, s *storetest.Fixture, by webhook.By, change ...func(*webhook.Settings)) made {
	t.Helper()
	settings := webhook.Settings{URL: hook}
	for _, f := range change {
		f(&settings)
	}
	e, token, err := s.Webhooks.Create(t.Context(), by, account, settings)
	must.Do(t, err)
	return made{s, e.ID, token}
}

func (m made) now(t *testing.T) webhook.Endpoint {
	t.Helper()
	return must.Get(m.Webhooks.Find(t.Context(), webhook.System, m.id))(t)
}

// event records an event of the account and returns its position.
func event(t *testing.T, s *storetest.Fixture, typ string) record.Position {
	t.Helper()
	wire := must.Get(s.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: account, Resource: "cus_1", Type: typ, Object: snapshot.ObjectOf()}))(t)
	return must.Get(positionOf(wire))(t)
}

func positionOf(wire []byte) (record.Position, error) {
	var e struct{ ID string }
	if err := json.Unmarshal(wire, &e); err != nil {
		return record.Position{}, err
	}
	p, ok := record.ParsePosition(e.ID)
	if !ok {
		return p, errors.New("not a native id: " + e.ID)
	}
	return p, nil
}

// eventsAbout returns the account's events about endpoints, oldest first.
func eventsAbout(t *testing.T, s *storetest.Fixture) (events []endpointEvent) {
	t.Helper()
	types := []string{"webhook_endpoint.*"}
	found, err := s.Events.Follow(t.Context(), account, types, record.Position{}, 1000)
	if gone, ok := errors.AsType[*eventlog.CursorError](err); ok {
		found, err = s.Events.Follow(t.Context(), account, types, gone.Resume, 1000)
	}
	must.Do(t, err)
	for _, e := range found.Events {
		var x endpointEvent
		must.Do(t, json.Unmarshal(e.Wire, &x))
		events = append(events, x)
	}
	return events
}

type endpointEvent struct {
	Resource, Source, Location, Type string
	EventData                        struct {
		Object, PreviousAttributes map[string]any
	}
}

func typesOf(events []endpointEvent) (types []string) {
	for _, e := range events {
		types = append(types, strings.TrimPrefix(e.Type, "webhook_endpoint."))
	}
	return types
}

func TestEndpoints(t *testing.T) {
	t.Parallel()

	t.Run("have_one_shape", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t, func(s *webhook.Settings) { s.Description = "orders" })
		e := m.now(t)
		if !regexp.MustCompile("^wep_[0-9a-hjkmnp-tv-z]{26}$").MatchString(e.ID) {
			t.Errorf("the id is %s", e.ID)
		}
		want := fmt.Sprintf(`{"id":%q,"object":"webhook_endpoint","account":"acct_1","url":%q,"description":"orders","types":["*"],"order":"strict",`+
			`"state":"enabled","disabled":null,"cursor":%q,"secrets":[{"createdAt":1773070200,"expiresAt":null}],"createdBy":{"client":null,"user":null},`+
			`"revision":1,"createdAt":1773070200,"status":{"health":"idle","behind":false,"blockedOn":null,"attempts":0,"failingSince":null,`+
			`"nextAttemptAt":null,"lastAttemptAt":null,"lastStatus":null,"lastError":null,"parked":0,"dead":0,"gap":null}}`, e.ID, hook, e.Cursor)
		if got := string(must.Get(json.Marshal(e.Object()))(t)); got != want {
			t.Errorf("the object is\n%s\nwant\n%s", got, want)
		}
	})

	t.Run("are_found_by_their_account_only", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		other := webhook.By{Account: "acct_2"}
		_, theirs := m.Webhooks.Find(t.Context(), other, m.id)
		_, none := m.Webhooks.Find(t.Context(), other, "wep_00000000000000000000000000")
		if !errors.Is(theirs, record.ErrNotFound) || theirs.Error() != none.Error() {
			t.Errorf("another account's endpoint gives %v, and one that never was %v", theirs, none)
		}
		_, err := m.Webhooks.Disable(t.Context(), other, m.id)
		deleted := m.Webhooks.Delete(t.Context(), other, m.id)
		if !errors.Is(err, record.ErrNotFound) || !errors.Is(deleted, record.ErrNotFound) {
			t.Errorf("another account disables it: %v, deletes it: %v", err, deleted)
		}
		_, listed := m.Webhooks.List(t.Context(), other, account, "", 10)
		_, _, created := m.Webhooks.Create(t.Context(), other, account, webhook.Settings{URL: hook + "2"})
		if !errors.Is(listed, record.ErrNotFound) || !errors.Is(created, record.ErrNotFound) || countKeys(t, m.Fixture) != 2 {
			t.Errorf("another account lists those of the account: %v, adds one to it: %v", listed, created)
		}
		if own := must.Get(m.Webhooks.Find(t.Context(), webhook.By{Account: account}, m.id))(t); own.ID != m.id {
			t.Errorf("its account finds %q", own.ID)
		}
	})

	t.Run("are_listed_by_id", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		var want []string
		for i := range 5 {
			e, _, err := s.Webhooks.Create(t.Context(), webhook.System, fmt.Sprintf("acct_%d", i%2), webhook.Settings{URL: fmt.Sprintf("%s%d", hook, i)})
			must.Do(t, err)
			want = append(want, e.ID)
		}
		slices.Sort(want)
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page := must.Get(s.Webhooks.List(t.Context(), webhook.System, "", after, 2))(t)
			for _, e := range page {
				got = append(got, e.ID)
			}
			if len(page) < 2 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the pages have %v, want %v", got, want)
		}
		if list := must.Get(s.Webhooks.List(t.Context(), webhook.By{Account: "acct_1"}, "", "", 10))(t); len(list) != 2 {
			t.Errorf("acct_1 lists %d, want 2", len(list))
		}
	})

	t.Run("have_different_URLs", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		second := addEndpoint(t, m.Fixture, webhook.System, func(s *webhook.Settings) { s.URL += "&second" })
		_, _, created := m.Webhooks.Create(t.Context(), webhook.System, account, webhook.Settings{URL: hook})
		url := hook
		_, updated := m.Webhooks.Update(t.Context(), webhook.System, second.id, webhook.Change{URL: &url})
		for _, err := range []error{created, updated} {
			if exists, ok := errors.AsType[*webhook.ExistsError](err); !ok || exists.ID != m.id {
				t.Errorf("the same URL again: %v, want that %s has it", err, m.id)
			}
		}
		if _, _, err := m.Webhooks.Create(t.Context(), webhook.System, "acct_2", webhook.Settings{URL: hook}); err != nil {
			t.Errorf("the URL in another account: %v", err)
		}
	})

	t.Run("are_at_most_50_in_an_account", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		for i := range webhook.AccountMax {
			addEndpoint(t, s, webhook.System, func(s *webhook.Settings) { s.URL = fmt.Sprint(hook, i) })
		}
		_, _, err := s.Webhooks.Create(t.Context(), webhook.System, account, webhook.Settings{URL: hook})
		if limit, ok := errors.AsType[*webhook.LimitError](err); !ok || limit.Max != 50 {
			t.Errorf("one more: %v", err)
		}
		if in := must.Get(s.Webhooks.Instance(t.Context()))(t); in.Endpoints != 50 {
			t.Errorf("%d are counted", in.Endpoints)
		}
	})

	t.Run("are_at_most_10000_in_all", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		full := webhook.EncodeInstance(webhook.Instance{Endpoints: webhook.InstanceMax})
		must.Do(t, s.DB.Update(t.Context(), func(tx kv.Txn) error { return tx.Set(record.MetaKey(webhook.MetaName), full, time.Time{}) }))
		_, _, err := s.Webhooks.Create(t.Context(), webhook.System, account, webhook.Settings{URL: hook})
		if limit, ok := errors.AsType[*webhook.LimitError](err); !ok || !limit.Instance || limit.Max != 10_000 {
			t.Errorf("one more: %v", err)
		}
	})

	t.Run("refuse_bad_settings", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		for field, settings := range map[string][]webhook.Settings{
			"types":       {{Types: []string{}}, {Types: []string{"customer"}}, {Types: []string{"Customer.*"}}, {Types: manyTypes(51)}},
			"description": {{Description: strings.Repeat("é", 257)}, {Description: "a\nb"}},
			"order":       {{Order: "sorted"}},
			"from":        {{From: webhook.FromTime(s.Now().Unix() + 1)}, {From: webhook.FromEvent("nope")}, {From: webhook.FromEvent(record.LastPosition.String())}},
		} {
			for _, x := range settings {
				x.URL = hook
				_, _, err := s.Webhooks.Create(t.Context(), webhook.System, account, x)
				if invalid, ok := errors.AsType[*record.InvalidError](err); !ok || invalid.Field != field {
					t.Errorf("%+v: %v, want that %s is invalid", x, err, field)
				}
			}
		}
		m := addEndpoint(t, s, webhook.System)
		long, order := strings.Repeat("é", 257), webhook.Order("sorted")
		for field, change := range map[string]webhook.Change{"types": {Types: []string{"customer"}}, "description": {Description: &long}, "order": {Order: &order}} {
			_, err := s.Webhooks.Update(t.Context(), webhook.System, m.id, change)
			if invalid, ok := errors.AsType[*record.InvalidError](err); !ok || invalid.Field != field || m.now(t).Revision != 1 {
				t.Errorf("a change of %s: %v, want that it is invalid", field, err)
			}
		}
	})

	t.Run("merge_the_same_type", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t, func(s *webhook.Settings) { s.Types = []string{"customer.*", "*.created", "customer.*"} })
		if got := m.now(t).Types; !slices.Equal(got, []string{"customer.*", "*.created"}) {
			t.Errorf("the types are %v", got)
		}
	})

	t.Run("change_only_at_the_asked_revision", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		text := "new"
		c := webhook.Change{Description: &text, If: func(revision uint64) bool { return revision == 2 }}
		if _, err := m.Webhooks.Update(t.Context(), webhook.System, m.id, c); !errors.Is(err, record.ErrPrecondition) {
			t.Errorf("at revision 1: %v", err)
		}
		c.If = func(revision uint64) bool { return revision == 1 }
		if e := must.Get(m.Webhooks.Update(t.Context(), webhook.System, m.id, c))(t); e.Revision != 2 || e.Description != text {
			t.Errorf("it became %+v", e)
		}
	})

	t.Run("leave_nothing_when_deleted", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		park(t, m, event(t, m.Fixture, "customer.created"))
		must.Do(t, m.Webhooks.Delete(t.Context(), webhook.System, m.id))
		if n := countKeys(t, m.Fixture); n != 0 {
			t.Errorf("%d records are left", n)
		}
		if err := m.Webhooks.Delete(t.Context(), webhook.System, m.id); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("again: %v", err)
		}
		must.Get(m.CheckAll(t.Context()))(t)
	})

	t.Run("leave_nothing_when_deleted_by_a_caller_who_goes_away", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		park(t, m, event(t, m.Fixture, "customer.created"))
		ctx, cancel := context.WithCancel(t.Context())
		m.Rest()
		m.Faults.OnUpdate(func(run func() error) error {
			defer cancel()
			return run()
		})
		err := m.Webhooks.Delete(ctx, webhook.System, m.id)
		m.Faults.Repair()
		if n := countKeys(t, m.Fixture); err != nil || n != 0 {
			t.Errorf("Delete() = %v, and %d records are left", err, n)
		}
	})
}

// countKeys counts the records of endpoints.
func countKeys(t *testing.T, s *storetest.Fixture) (n int) {
	t.Helper()
	for _, tag := range []byte{record.TagWebhook, record.TagWebhookID, record.TagWebhookSet, record.TagWebhookLine} {
		n += s.Count(t, tag)
	}
	return n
}

// clientOf returns a client that acts for the account by itself.
func clientOf(t *testing.T, s *storetest.Fixture) string {
	t.Helper()
	c, _ := s.Client(t)
	must.Do(t, actsFor(t.Context(), s, c.ID, account))
	return c.ID
}

func manyTypes(n int) (types []string) {
	for i := range n {
		types = append(types, fmt.Sprintf("customer.a%d", i))
	}
	return types
}

// Promise (Webhooks): an endpoint, its limits, revisions and events; paths and queries of URLs stay
// out of events and audit
func TestEndpointEvents(t *testing.T) {
	t.Parallel()

	t.Run("tell_each_change_once", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		m := makeEndpoint(t)
		text := "orders"
		for range 2 { // the second of each changes nothing
			must.Get(m.Webhooks.Update(ctx, webhook.System, m.id, webhook.Change{Description: &text}))(t)
		}
		for range 2 {
			must.Get(m.Webhooks.Disable(ctx, webhook.System, m.id))(t)
		}
		for range 2 {
			_, _, err := m.Webhooks.Enable(ctx, webhook.System, m.id, webhook.From{})
			must.Do(t, err)
		}
		_, _, err := m.Webhooks.RotateSecret(ctx, webhook.System, m.id, 0, secret.Token{})
		must.Do(t, err)
		must.Do(t, m.Webhooks.Delete(ctx, webhook.System, m.id))
		events := eventsAbout(t, m.Fixture)
		if got := typesOf(events); !slices.Equal(got, []string{"created", "updated", "disabled", "enabled", "secret_rotated", "deleted"}) {
			t.Fatalf("the events are %v", got)
		}
		revision := 0.0
		for _, e := range events[:5] {
			if now := e.EventData.Object["revision"].(float64); now != revision+1 {
				t.Errorf("%s has revision %v after %v", e.Type, now, revision)
			} else if before := e.EventData.PreviousAttributes["revision"]; revision > 0 && before != revision {
				t.Errorf("%s says that the revision was %v, want %v", e.Type, before, revision)
			}
			revision++
		}
		if was := events[2].EventData.PreviousAttributes; was["state"] != "enabled" || len(was) != 3 {
			t.Errorf("the event of disabling says that before it were %v", was)
		}
		lines := must.Get(m.ListAudit(ctx, record.Position{}, 100))(t)
		var said []string
		for _, l := range lines {
			_, what, _ := strings.Cut(l.Reason, "at hooks.example.com:8443: ")
			said = append(said, what)
		}
		if want := []string{"created", "updated", "disabled by operator (asked)", "enabled", "secret_rotated", "deleted"}; !slices.Equal(said, want) {
			t.Errorf("the audit log says %q, want %q", said, want)
		}
		if len(lines) != 6 || !strings.Contains(lines[0].Reason, m.id) || strings.Contains(lines[0].Reason, "token=") || lines[0].AccountID != account {
			t.Errorf("the audit log has %+v", lines)
		}
	})

	t.Run("show_no_path_and_no_secret", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t)
		object := eventsAbout(t, m.Fixture)[0].EventData.Object
		want := []string{"description", "disabled", "id", "object", "order", "revision", "state", "types", "url"}
		if got := slices.Sorted(maps.Keys(object)); object["url"] != "https://hooks.example.com:8443" || !slices.Equal(got, want) {
			t.Errorf("the event has %v, want the members %v", object, want)
		}
	})

	t.Run("name_who_made_the_change", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		c := clientOf(t, s)
		addEndpoint(t, s, webhook.By{Account: account, Owner: s.OwnerOf(t, c)})
		addEndpoint(t, s, webhook.System, func(s *webhook.Settings) { s.URL += "2" })
		events := eventsAbout(t, s)
		if e := events[0]; e.Source != c || e.Location != "api" {
			t.Errorf("with a token: source %s, location %s", e.Source, e.Location)
		}
		if e := events[1]; e.Source != "system" || e.Location != "system" {
			t.Errorf("by an operator: source %s, location %s", e.Source, e.Location)
		}
	})

	t.Run("an_endpoint_is_not_sent_its_own_created_event", func(t *testing.T) {
		t.Parallel()
		m := makeEndpoint(t, func(s *webhook.Settings) { s.From = webhook.FromStart() })
		second := addEndpoint(t, m.Fixture, webhook.System, func(s *webhook.Settings) { s.URL += "2"; s.From = webhook.FromStart() })
		for _, m := range []made{m, second} {
			e := m.now(t)
			s := must.Get(m.Webhooks.Next(t.Context(), &e, e.Cursor, 100))(t)
			if len(s.Events) != 1 {
				t.Errorf("%d events are sent, want that of the other endpoint", len(s.Events))
			}
			for _, event := range s.Events {
				if strings.Contains(string(event.Wire), `"resource":"`+m.id) {
					t.Error("its own is sent")
				}
			}
		}
	})
}

// Promise (Webhooks): from: now, start, an event, a time; below retention 410
func TestEndpointsBegin(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	first := event(t, s, "customer.created")
	s.Clock.Advance(10 * time.Second)
	second := event(t, s, "customer.updated")
	s.Clock.Advance(10 * time.Second)
	n := 0
	for name, tt := range map[string]struct {
		from webhook.From
		want []record.Position
	}{
		"now":                  {webhook.FromNow(), nil},
		"without_a_place":      {webhook.From{}, nil},
		"at_the_start":         {webhook.FromStart(), []record.Position{first, second}},
		"behind_an_event":      {webhook.FromEvent(first.String()), []record.Position{second}},
		"at_the_second_event":  {webhook.FromTime(second.Millis() / 1000), []record.Position{second}},
		"before_the_log_began": {webhook.FromTime(0), []record.Position{first, second}},
	} {
		n++
		m := addEndpoint(t, s, webhook.System, func(s *webhook.Settings) {
			s.URL, s.From, s.Types = fmt.Sprint(hook, n), tt.from, []string{"customer.*"}
		})
		e := m.now(t)
		var got []record.Position
		for _, x := range must.Get(s.Webhooks.Next(t.Context(), &e, e.Cursor, 100))(t).Events {
			got = append(got, x.Position)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: it is sent %v, want %v", name, got, tt.want)
		}
		if e.Behind != (len(tt.want) > 0) {
			t.Errorf("%s: behind is %v", name, e.Behind)
		}
		if tt.want != nil {
			continue
		}
		wire := string(must.Get(s.Events.FindEvent(t.Context(), account, e.Cursor.String(), nil))(t))
		if !strings.Contains(wire, `"type":"webhook_endpoint.created"`) || !strings.Contains(wire, `"resource":"`+m.id+`"`) {
			t.Errorf("%s: the cursor is at %s, want at its own created event", name, wire)
		}
	}
}

// Promise (Webhooks): the same when the generation of its user or client rises; however many there
// are; what two servers do at the same time leaves none enabled
func TestEndpointsEndWithTheirAuthorization(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end    func(ctx context.Context, s *storetest.Fixture, client string, u store.User) error
		reason webhook.Reason // "" goes on
	}{
		"a_client_disabled": {func(ctx context.Context, s *storetest.Fixture, client string, _ store.User) error {
			_, err := s.DisableClient(ctx, client)
			return err
		}, webhook.AuthorizationEnded},
		"a_client_deleted": {func(ctx context.Context, s *storetest.Fixture, client string, _ store.User) error {
			return s.Store.DeleteClient(ctx, client)
		}, webhook.AuthorizationEnded},
		"a_user_disabled": {func(ctx context.Context, s *storetest.Fixture, _ string, u store.User) error {
			_, err := s.DisableUser(ctx, u.Username)
			return err
		}, webhook.AuthorizationEnded},
		"a_user_deleted": {func(ctx context.Context, s *storetest.Fixture, _ string, u store.User) error {
			return s.DeleteUser(ctx, u.Username)
		}, webhook.AuthorizationEnded},
		"the_user_revokes_the_client": {func(ctx context.Context, s *storetest.Fixture, client string, u store.User) error {
			return s.RevokeGranted(ctx, store.By{}, u, client)
		}, webhook.AuthorizationEnded},
		"a_client_gets_another_account": {func(ctx context.Context, s *storetest.Fixture, client string, _ store.User) error {
			other := "acct_2"
			return update(ctx, s, client, store.ClientChange{Account: &other})
		}, webhook.AuthorizationEnded},
		"a_client_loses_the_grant_to_act_for_an_account": {func(ctx context.Context, s *storetest.Fixture, client string, _ store.User) error {
			return update(ctx, s, client, store.ClientChange{Grants: &[]string{"authorization_code"}})
		}, webhook.AuthorizationEnded},
		"a_client_may_no_longer_read_events": {func(ctx context.Context, s *storetest.Fixture, client string, _ store.User) error {
			return update(ctx, s, client, store.ClientChange{Scopes: &[]string{"webhooks:write"}})
		}, webhook.ClientEnded},
		"a_client_may_no_longer_write_endpoints": {func(ctx context.Context, s *storetest.Fixture, client string, _ store.User) error {
			return update(ctx, s, client, store.ClientChange{Scopes: &[]string{"events:read", "webhooks:read"}})
		}, webhook.ClientEnded},
		"a_client_keeps_both_scopes": {func(ctx context.Context, s *storetest.Fixture, client string, _ store.User) error {
			return update(ctx, s, client, store.ClientChange{Scopes: &[]string{"events:read", "webhooks:write"}})
		}, ""},
		"a_client_gets_a_secret_and_its_tokens_are_revoked": {func(ctx context.Context, s *storetest.Fixture, client string, _ store.User) error {
			_, _, err := s.RotateClientSecret(ctx, client, true)
			return err
		}, webhook.AuthorizationEnded},
		"a_client_gets_a_secret": {func(ctx context.Context, s *storetest.Fixture, client string, _ store.User) error {
			_, _, err := s.RotateClientSecret(ctx, client, false)
			return err
		}, ""},
		"a_new_password": {func(ctx context.Context, s *storetest.Fixture, _ string, u store.User) error {
			_, err := s.SetPassword(ctx, u.Username, "another correct horse battery")
			return err
		}, webhook.AuthorizationEnded},
		"the_user_revokes_another_client": {func(ctx context.Context, s *storetest.Fixture, _ string, u store.User) error {
			return s.RevokeGranted(ctx, store.By{}, u, "another")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.New(t)
			client, u := clientOf(t, s), s.User(t, "mara", account)
			bound := addEndpoint(t, s, webhook.By{Account: account, Owner: s.OwnerOf(t, client, u)})
			free := addEndpoint(t, s, webhook.System, func(s *webhook.Settings) { s.URL += "2" })
			must.Do(t, tt.end(t.Context(), s, client, u))
			if got := bound.now(t).Disabled; got.Reason != tt.reason || tt.reason != "" && got.By != webhook.BySystem {
				t.Errorf("the endpoint of the token is disabled by %q (%q), want %q", got.By, got.Reason, tt.reason)
			}
			if !free.isEnabled(t) {
				t.Error("the endpoint of the operator is disabled")
			}
		})
	}

	t.Run("enabling_a_client_again_revives_nothing", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		client := clientOf(t, s)
		m := addEndpoint(t, s, webhook.By{Account: account, Owner: s.OwnerOf(t, client)})
		must.Get(s.DisableClient(t.Context(), client))(t)
		must.Get(s.EnableClient(t.Context(), client))(t)
		if m.isEnabled(t) {
			t.Error("it is enabled with its client")
		}
	})

	other := "acct_2"
	for name, change := range map[string]store.ClientChange{
		"acts_for_another_account":      {Account: &other},
		"may_no_longer_act_for_itself":  {Grants: &[]string{"authorization_code"}},
		"may_no_longer_read_events":     {Scopes: &[]string{"webhooks:write"}},
		"may_no_longer_write_endpoints": {Scopes: &[]string{"events:read"}},
	} {
		t.Run("a_client_that_"+name+"_enables_and_creates_none", func(t *testing.T) {
			t.Parallel()
			s := storetest.New(t)
			client := clientOf(t, s)
			by := webhook.By{Account: account, Owner: s.OwnerOf(t, client)}
			m := addEndpoint(t, s, by)
			must.Do(t, update(t.Context(), s, client, change))
			if _, _, err := s.Webhooks.Enable(t.Context(), by, m.id, webhook.From{}); !errors.Is(err, record.ErrDisabled) || m.isEnabled(t) {
				t.Errorf("Enable: %v, want that its client has ended", err)
			}
			if _, _, err := s.Webhooks.Create(t.Context(), by, account, webhook.Settings{URL: hook + "2"}); !errors.Is(err, record.ErrDisabled) {
				t.Errorf("Create with its token: %v", err)
			}
		})
	}

	t.Run("end_although_the_caller_goes_away", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		client := clientOf(t, s)
		m := addEndpoint(t, s, webhook.By{Account: account, Owner: s.OwnerOf(t, client)})
		ctx, leave := context.WithCancel(t.Context())
		s.Faults.OnUpdate(func(run func() error) error { defer leave(); return run() })
		must.Get(s.DisableClient(ctx, client))(t)
		s.Faults.Repair()
		if m.isEnabled(t) {
			t.Error("the endpoint is still enabled")
		}
	})

	t.Run("a_revocation_that_is_killed_leaves_no_push_alone", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		client, u := clientOf(t, s), s.User(t, "mara", account)
		c := must.Get(s.FindClient(t.Context(), client))(t)
		must.Get(s.IssueForPassword(t.Context(), store.By{}, c, u, store.ScopeUnstated))(t)
		m := addEndpoint(t, s, webhook.By{Account: account, Owner: s.OwnerOf(t, client, u)})
		s.CutAt(1, false)
		if err := s.RevokeGranted(t.Context(), store.By{}, u, client); err == nil {
			t.Error("the revocation was not cut")
		}
		s.Faults.Repair()
		if m.isEnabled(t) {
			t.Error("the endpoint is still enabled")
		}
	})

	t.Run("an_ended_client_makes_no_endpoint", func(t *testing.T) {
		t.Parallel()
		s := storetest.New(t)
		client := clientOf(t, s)
		must.Get(s.DisableClient(t.Context(), client))(t)
		_, _, err := s.Webhooks.Create(t.Context(), webhook.By{Account: account, Owner: s.OwnerOf(t, client)}, account, webhook.Settings{URL: hook})
		if !errors.Is(err, record.ErrDisabled) {
			t.Errorf("Create: %v", err)
		}
	})
}

func update(ctx context.Context, s *storetest.Fixture, client string, change store.ClientChange) error {
	_, err := s.UpdateClient(ctx, client, change)
	return err
}

// actsFor lets a client act for an account by itself.
func actsFor(ctx context.Context, s *storetest.Fixture, client, account string) error {
	return update(ctx, s, client, store.ClientChange{Account: &account, Grants: &[]string{"authorization_code", "client_credentials"}})
}

func (m made) isEnabled(t *testing.T) bool {
	t.Helper()
	e := m.now(t)
	return e.Enabled()
}

func TestWhatOthersRecordAboutEndpointsIsHistory(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	event(t, s, "webhook_endpoint.created")
	const line = `{"id":"evt_old","resource":"wep_1","type":"webhook_endpoint.created","createdAt":1773070000,"source":"x","location":"y","eventData":{"object":{}}}`
	storetest.ImportLines(t, s.Store, account, line)
	if events := eventsAbout(t, s); len(events) != 2 {
		t.Fatalf("%d events are recorded, want 2", len(events))
	}
	if list := must.Get(s.Webhooks.List(t.Context(), webhook.System, "", "", 10))(t); len(list) != 0 {
		t.Errorf("there are %d endpoints", len(list))
	}
	if n := s.Count(t, record.TagResource); n != 0 {
		t.Errorf("there are %d snapshots", n)
	}
}
