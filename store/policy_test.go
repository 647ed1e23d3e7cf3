package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/record"
	"tollhouse/store/storetest/must"
)

// TestSetPolicy changes the lifetimes while tokens are issued: each token has those of before
// or of after, and the next one those of after.
//
// Promise (Postgres §5): config set changes what servers share while they run, prints old and new and leaves
// an audit line; servers take it within 10 seconds and keep it when they join again; another value ends with 78
func TestSetPolicy(t *testing.T) {
	ctx := context.Background()
	g := parallelGrant(t)
	before := g.Lifetimes()
	policy := store.Policy{Lifetimes: before, SecondFactor: store.FactorOffered, CardGuard: eventlog.CardGuardOff, OpenKinds: true}
	policy.Lifetimes.AccessToken = 10 * time.Minute
	var issuing sync.WaitGroup
	for range 4 {
		issuing.Go(func() {
			for range 10 {
				issued, err := g.IssueForPassword(ctx, store.By{}, g.client, g.user, store.ScopeEventsRead)
				if d := issued.ExpiresIn; err != nil || d != before.AccessToken && d != policy.Lifetimes.AccessToken {
					t.Errorf("IssueForPassword() = %s, %v; want one of both lifetimes", d, err)
				}
			}
		})
	}
	must.Do(t, g.SetPolicy(policy))
	issuing.Wait()
	if issued := must.Get(g.IssueForPassword(ctx, store.By{}, g.client, g.user, store.ScopeEventsRead))(t); issued.ExpiresIn != 10*time.Minute {
		t.Errorf("a token lives for %s, want 10m", issued.ExpiresIn)
	}
	policy.SecondFactor = store.FactorAll
	must.Do(t, g.SetPolicy(policy))
	if !g.NeedsFactor(g.user) || !g.Events.Rules().OpenKinds {
		t.Error("the second factor and the rules are those of before")
	}
	wrong := policy
	wrong.Lifetimes.Code = time.Hour
	var bad *record.InvalidError
	if err := g.SetPolicy(wrong); !errors.As(err, &bad) || g.Lifetimes() != policy.Lifetimes {
		t.Errorf("SetPolicy() = %v with %+v; want a refusal that changes nothing", err, g.Lifetimes())
	}
	must.Do(t, g.RecordSettings(ctx, []string{"setting access-ttl changed from 1h to 10m"}))
	lines := must.Get(g.ListAudit(ctx, record.Position{}, 1000))(t)
	if last := lines[len(lines)-1]; last.What != store.AuditAdmin || last.Reason != "setting access-ttl changed from 1h to 10m" {
		t.Errorf("the last audit line is %+v, want the setting", last)
	}
}
