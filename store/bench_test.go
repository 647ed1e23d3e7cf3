package store_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
)

// The benchmarks of the token half, each beside its floor. Figures are ratios
// within one run:
//
//	go test -run xxx -bench 'Bearer|Rotate|PasswordIssue' ./store

// issueOne returns a store on disk with one client and one family.
func issueOne(b *testing.B) (*storetest.Fixture, store.Client, store.User, store.Issued) {
	b.Helper()
	f := storetest.OnDisk(b)
	client, _ := f.Client(b)
	user := f.User(b, "harriet.voss", "acct_bench")
	issued, err := f.IssueForPassword(context.Background(), store.By{}, client, user, store.ScopeUnstated)
	if err != nil {
		b.Fatal(err)
	}
	return f, client, user, issued
}

// BenchmarkBearerCheck is the check of every API request: four records in one
// snapshot, no cache.
func BenchmarkBearerCheck(b *testing.B) {
	f, _, _, issued := issueOne(b)
	ctx := context.Background()
	text := issued.AccessToken.Reveal()
	for b.Loop() {
		token, ok := secret.Parse(secret.AccessToken, text)
		if !ok {
			b.Fatal("token does not parse")
		}
		if _, err := f.FindPrincipal(ctx, token); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBearerCheckBesideWriters is the same while 64 callers rotate: a
// reader never waits for a commit in flight.
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

// rotateUntil rotates one family of its own, over and over.
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

// BenchmarkRotateRefresh is a durable rotation, for one client and for 64 at
// once.
func BenchmarkRotateRefresh(b *testing.B) {
	for name, clients := range map[string]int{"clients=1": 1, "clients=64": 64} {
		b.Run(name, func(b *testing.B) {
			f, client, user, _ := issueOne(b)
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var callers sync.WaitGroup
			for range clients {
				callers.Go(func() { rotateWhile(b, f, client, user, &left) })
			}
			callers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rotations/s")
		})
	}
}

func rotateWhile(b *testing.B, f *storetest.Fixture, client store.Client, user store.User, left *atomic.Int64) {
	ctx := context.Background()
	issued, err := f.IssueForPassword(ctx, store.By{}, client, user, store.ScopeUnstated)
	for err == nil && left.Add(-1) >= 0 {
		issued, err = f.RotateRefresh(ctx, store.Refresh{Client: client, Token: issued.RefreshToken})
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkSyncFloor is what one durable write of any kind costs on this disk:
// a page written and synced.
func BenchmarkSyncFloor(b *testing.B) {
	file, err := os.Create(filepath.Join(b.TempDir(), "floor"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	page := make([]byte, 4096)
	for b.Loop() {
		if _, err := file.WriteAt(page, 0); err != nil {
			b.Fatal(err)
		}
		if err := file.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPasswordIssue is the store's share of the password grant, beside one
// password hash (BenchmarkHash in package secret).
func BenchmarkPasswordIssue(b *testing.B) {
	f, client, user, _ := issueOne(b)
	ctx := context.Background()
	hasher := secret.NewHasher()
	stored, err := hasher.Hash(ctx, storetest.Password)
	if err != nil {
		b.Fatal(err)
	}
	var hashing, granting time.Duration
	for b.Loop() {
		started := time.Now()
		if _, _, err := hasher.Verify(ctx, stored, storetest.Password); err != nil {
			b.Fatal(err)
		}
		hashed := time.Now()
		if _, err := f.AuthenticateUser(ctx, user.Username, storetest.Password); err != nil {
			b.Fatal(err)
		}
		if _, err := f.IssueForPassword(ctx, store.By{}, client, user, store.ScopeUnstated); err != nil {
			b.Fatal(err)
		}
		hashing, granting = hashing+hashed.Sub(started), granting+time.Since(hashed)
	}
	b.ReportMetric(float64(granting)/float64(hashing), "x-one-hash")
}
