package store_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"tollhouse/store"
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
