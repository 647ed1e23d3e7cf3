package webhooks_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/secret"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// TestNoRequestBeginsAfterARevocation: whichever server revoked it, and although more events
// of the page are read and more endpoints of the client are left than one transaction
// disables. What was recorded in the meantime is sent once the endpoint is enabled again.
//
// Promise (Webhooks): no request to an endpoint begins after its authorization ended, on any server
func TestNoRequestBeginsAfterARevocation(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]func(ctx context.Context, s *storetest.Fixture, issued store.Issued, c store.Client) error{
		"a_family": func(ctx context.Context, s *storetest.Fixture, issued store.Issued, _ store.Client) error {
			_, err := s.RevokeFamily(ctx, store.By{}, issued.FamilyID)
			return err
		},
		"a_user": func(ctx context.Context, s *storetest.Fixture, _ store.Issued, _ store.Client) error {
			_, err := s.SetPassword(ctx, "mara", "another correct horse battery")
			return err
		},
		"all_of_an_account": func(ctx context.Context, s *storetest.Fixture, _ store.Issued, _ store.Client) error {
			_, err := s.RevokeAccount(ctx, "acct_a")
			return err
		},
		"a_client_of_many_endpoints": func(ctx context.Context, s *storetest.Fixture, _ store.Issued, c store.Client) error {
			_, _, err := s.RotateClientSecret(ctx, c.ID, true)
			return err
		},
	} {
		for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
			engines := storetest.SharedEngines()
			engines["one_server"] = engines["in_memory"]
			for engine, open := range engines {
				t.Run(fmt.Sprintf("of_%s_in_order_%s_%s", name, order, engine), func(t *testing.T) {
					t.Parallel()
					dbA, dbB := open(t)
					a, other := storetest.Two(t, dbA, dbB)
					if engine == "one_server" {
						other = a
					}
					c, _ := a.Client(t)
					if name == "a_client_of_many_endpoints" {
						for i := range webhook.AccountMax {
							pushFor(t, a, c, a.User(t, fmt.Sprint("user", i), fmt.Sprint("acct_", i)), webhook.Settings{URL: "http://127.0.0.1:1/x"})
						}
					}
					in := newInbox(t)
					arrived, release := make(chan struct{}), make(chan struct{})
					hold := sync.OnceFunc(func() { close(arrived); <-release })
					in.answer = func(string) int { hold(); return 200 }
					issued, e := pushFor(t, a, c, a.User(t, "mara", "acct_a"), webhook.Settings{URL: in.URL + "/hook", Types: []string{"customer.*"}, Order: order})
					in.expect(e.token)
					control := newInbox(t)
					control.endpoint(a, webhook.Settings{Types: []string{"customer.*"}})
					ids := recordMany(t, a, "customer.updated", 80)
					_, stop := runStored(t, a)
					<-arrived
					must.Do(t, revoke(t.Context(), other, issued, c))
					close(release)
					recordMany(t, other, "customer.updated", 5)
					control.wait(len(ids) + 5)
					stop()
					if got := in.wait(0); len(got) > 1 {
						t.Errorf("%d events arrived after the revocation", len(got)-1)
					}
					if now := must.Get(a.Webhooks.Load(t.Context(), e.ID))(t); now.Disabled.Reason != webhook.AuthorizationEnded {
						t.Errorf("disabled = %+v", now.Disabled)
					}
					_, _, err := a.Webhooks.Enable(t.Context(), webhook.System, e.ID, webhook.From{})
					must.Do(t, err)
					runStored(t, a)
					in.wait(len(ids) + 5)
				})
			}
		}
	}
}

// Promise (Webhooks): no request begins while the account is disabled, whichever server disabled it;
// afterwards what was recorded in the meantime is sent
func TestNoRequestBeginsWhileTheAccountIsDisabled(t *testing.T) {
	t.Parallel()
	for _, order := range []webhook.Order{webhook.Strict, webhook.None} {
		for engine, open := range storetest.SharedEngines() {
			t.Run(string(order)+"_"+engine, func(t *testing.T) {
				t.Parallel()
				dbA, dbB := open(t)
				a, other := storetest.Two(t, dbA, dbB)
				in, control := newInbox(t), newInbox(t)
				arrived, release := make(chan struct{}), make(chan struct{})
				hold := sync.OnceFunc(func() { close(arrived); <-release })
				in.answer = func(string) int { hold(); return 200 }
				e := in.endpoint(a, webhook.Settings{Types: []string{"customer.*"}, Order: order})
				elsewhere, token, err := a.Webhooks.Create(t.Context(), webhook.System, "acct_b", webhook.Settings{URL: control.URL + "/hook"})
				must.Do(t, err)
				control.expect(token)
				ids := recordMany(t, a, "customer.updated", 80)
				_, stop := runStored(t, a)
				<-arrived
				must.Get(other.DisableAccount(t.Context(), "acct_a"))(t)
				close(release)
				ids = append(ids, recordMany(t, other, "customer.updated", 5)...)
				must.Get(other.Events.RecordEvent(t.Context(), eventlog.NewEvent{Owner: elsewhere.Account, Type: "customer.updated", Resource: "r_1", Source: "test", Location: "system", Object: snapshot.ObjectOf()}))(t)
				control.wait(1) // the sender has looked since
				stop()
				sent := in.wait(0)
				if len(sent) > 1 {
					t.Errorf("%d events arrived while the account was disabled", len(sent)-1)
				}
				if now := must.Get(a.Webhooks.Load(t.Context(), e.ID))(t); !now.Enabled() || now.IsSendable() {
					t.Errorf("the endpoint is disabled %+v, stopped %s", now.Disabled, now.Stopped)
				}
				runStored(t, a)
				must.Get(other.EnableAccount(t.Context(), "acct_a"))(t)
				want := slices.Sorted(slices.Values(ids))
				distinct := func(got []string) []string { slices.Sort(got); return slices.Compact(got) }
				got := distinct(in.wait(len(ids)))
				if len(got) < len(ids) { // the request that was in flight was cut, and is repeated
					got = distinct(in.wait(len(ids) + 1))
				}
				if !slices.Equal(got, want) {
					t.Errorf("arrived %d events, want %d", len(got), len(want))
				}
			})
		}
	}
}

// pushed is an endpoint with its secret.
type pushed struct {
	webhook.Endpoint
	token secret.Token
}

// pushFor creates an endpoint with a token of a client for a user.
func pushFor(t testing.TB, s *storetest.Fixture, c store.Client, u store.User, set webhook.Settings) (store.Issued, pushed) {
	t.Helper()
	issued := must.Get(s.IssueForPassword(t.Context(), store.By{}, c, u, store.ScopeUnstated))(t)
	p := must.Get(s.FindPrincipal(t.Context(), issued.AccessToken))(t)
	e, token, err := s.Webhooks.Create(t.Context(), webhook.By{Account: u.Account, Owner: p.WebhookOwner(), Live: s.LiveIn(p, nil)}, u.Account, set)
	must.Do(t, err)
	return issued, pushed{e, token}
}
