package store_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// issueOne returns a store on disk with one client and one family.
func issueOne(b *testing.B) (*storetest.Fixture, store.Client, store.User, store.Issued) {
	b.Helper()
	f := storetest.OnDisk(b)
	client, _ := f.Client(b)
	user := f.User(b, "harriet.voss", "acct_bench")
	issued := must.Get(f.IssueForPassword(context.Background(), store.By{}, client, user, store.ScopeUnstated))(b)
	return f, client, user, issued
}

// BenchmarkBearerCheckBesideWriters is the same while 64 callers rotate: a reader
// never waits for a commit.
func BenchmarkBearerCheckBesideWriters(b *testing.B) {
	f, client, user, issued := issueOne(b)
	ctx, cancel := context.WithCancel(context.Background())
	var writers sync.WaitGroup
	var rotations atomic.Int64
	for range 64 {
		writers.Go(func() { rotations.Add(rotateUntil(ctx, b, f, client, user)) })
	}
	b.ResetTimer()
	for b.Loop() {
		if _, err := f.FindPrincipal(context.Background(), issued.AccessToken); err != nil {
			b.Error(err)
			break
		}
	}
	elapsed := b.Elapsed()
	cancel()
	writers.Wait()
	b.ReportMetric(float64(rotations.Load())/elapsed.Seconds(), "rotations/s")
}

// rotateUntil rotates a family of its own repeatedly.
func rotateUntil(ctx context.Context, b *testing.B, f *storetest.Fixture, client store.Client, user store.User) (count int64) {
	issued, err := f.IssueForPassword(context.Background(), store.By{}, client, user, store.ScopeUnstated)
	for err == nil && ctx.Err() == nil {
		issued, err = f.RotateRefresh(context.Background(), store.Refresh{Client: client, Token: issued.RefreshToken})
		count++
	}
	if err != nil {
		b.Error(err)
	}
	return count
}

// BenchmarkChangeByToken records changes of a resource, each in an Update that judges a user's token
// again, beside the same ones of a caller without a token, whose Update looks only at the account:
//
//	go test -run '^$' -bench ChangeByToken ./store
func BenchmarkChangeByToken(b *testing.B) {
	onDisk := func(t testing.TB) *storetest.Fixture { return storetest.OnDisk(t) }
	for name, open := range map[string]func(testing.TB) *storetest.Fixture{"on_disk": onDisk, "in_postgres": storetest.InPostgres} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) {
				by, without := changes(b, open(b), writers, true), changes(b, open(b), writers, false)
				var p storetest.Pairs
				for b.Loop() {
					p.Take(by, without)
				}
				p.Report(b, "by_token", "without")
			})
		}
	}
}

func changes(b *testing.B, f *storetest.Fixture, writers int, byToken bool) storetest.Work {
	b.Helper()
	const each = 16
	g := newGrantIn(b, f)
	p := must.Get(g.FindPrincipal(context.Background(), g.first.AccessToken))(b)
	c := eventlog.ResourceChange{Owner: p.Account, Kind: "plan", Action: "seen", Source: p.Username, Location: "api"}
	if byToken {
		c.Live = g.LiveIn(p, nil)
	}
	change := func(writer int) {
		c := c
		c.ID = fmt.Sprint("p", writer)
		if _, err := f.Events.PutResource(context.Background(), c, snapshot.ObjectOf()); err != nil {
			b.Error(err)
		}
	}
	for writer := range writers {
		made := c
		made.Action, made.ID = "", fmt.Sprint("p", writer)
		must.Get(f.Events.PutResource(context.Background(), made, snapshot.ObjectOf()))(b)
	}
	return storetest.Timed(func() {
		var all sync.WaitGroup
		for writer := range writers {
			all.Go(func() {
				for range each {
					change(writer)
				}
			})
		}
		all.Wait()
		f.Clock.Advance(time.Millisecond)
	})
}
