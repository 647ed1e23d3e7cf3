package store_test

import (
	"context"
	"crypto/sha256"
	"sync"
	"testing"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// The benchmarks of tokens and clients, each alternating with its floor. Only the
// ratios mean anything:
//
//	go test ./store -run '^$' -bench 'Check|Authentication|Rotate' -benchtime 1x

const (
	readsPerPair = 10 // one is too short to time
	readPairs    = 10_000
	groupPairs   = 30
	groupRounds  = 10 // rotations of each client in a group that is timed
)

// BenchmarkBearerCheck is the check of every API request, against a SHA-256 and bare
// reads of the same four records in one snapshot.
func BenchmarkBearerCheck(b *testing.B) {
	f, _, _, issued := issueOne(b)
	text := issued.AccessToken.Reveal()
	besideReads(b, f, text, []byte{'t', 'f', 'c', 'u'}, func() error {
		token, err := f.ParseToken(context.Background(), secret.AccessToken, text)
		if err == nil {
			_, err = f.FindPrincipal(context.Background(), token)
		}
		return err
	})
}

// BenchmarkClientAuthentication is the check of a client's secret in every grant,
// against a SHA-256 and a bare read of the client.
func BenchmarkClientAuthentication(b *testing.B) {
	f := storetest.OnDisk(b)
	client, sec := f.Client(b)
	besideReads(b, f, sec.Reveal(), []byte{'c'}, func() error {
		_, err := f.AuthenticateClient(context.Background(), client.ID, sec.Reveal(), nil)
		return err
	})
}

// besideReads alternates work with hashing a text and reading the first record of each
// of the kinds.
func besideReads(b *testing.B, f *storetest.Fixture, text string, tags []byte, work func() error) {
	b.Helper()
	ctx := context.Background()
	var keys [][]byte
	for _, tag := range tags {
		keys = append(keys, f.FirstKey(b, tag))
	}
	read := func() error {
		_ = sha256.Sum256([]byte(text))
		return f.DB.View(ctx, func(r kv.Reader) error {
			for _, key := range keys {
				if _, err := r.Get(key); err != nil {
					return err
				}
			}
			return nil
		})
	}
	many := func(do func() error) storetest.Work {
		return storetest.Timed(func() {
			for range readsPerPair {
				must.Do(b, do())
			}
		})
	}
	var pairs storetest.Pairs
	for b.Loop() {
		for range readPairs / 2 {
			pairs.Take(many(work), many(read))
		}
	}
	pairs.Report(b, "ours-10", "floor-10")
}

// BenchmarkRotateRefresh is a durable rotation by 64 clients at once, against as many
// callers who commit the same bytes.
func BenchmarkRotateRefresh(b *testing.B) {
	const clients = 64
	f, client, user, _ := issueOne(b)
	commits, floors := tapeRotation(b), storetest.NewFloor(b)
	issued := make([]store.Issued, clients)
	for i := range issued {
		issued[i] = rotated(b, f, client, issue(b, f, client, user))
	}
	ours := func(i int) { issued[i] = rotated(b, f, client, issued[i]) }
	floor := func(int) { floors.Commit(b, commits) }
	group := func(do func(i int)) storetest.Work {
		return storetest.Timed(func() {
			var callers sync.WaitGroup
			for i := range clients {
				callers.Go(func() {
					for range groupRounds {
						do(i)
					}
				})
			}
			callers.Wait()
		})
	}
	var pairs storetest.Pairs
	for b.Loop() {
		for range groupPairs / 2 {
			pairs.Take(group(ours), group(floor))
		}
	}
	pairs.Report(b, "ours-640", "floor-640")
}

// tapeRotation returns the writes of a family's second rotation, which later ones
// repeat.
func tapeRotation(b *testing.B) [][]storetest.Record {
	b.Helper()
	f, tape := storetest.NewTaped(b)
	client, _ := f.Client(b)
	first := rotated(b, f, client, issue(b, f, client, f.User(b, "harriet.voss", "acct_bench")))
	tape.Commits = nil
	rotated(b, f, client, first)
	return tape.Commits
}

func issue(b *testing.B, f *storetest.Fixture, c store.Client, u store.User) store.Issued {
	b.Helper()
	issued := must.Get(f.IssueForPassword(context.Background(), store.By{}, c, u, store.ScopeUnstated))(b)
	return issued
}

// rotated may be called from any goroutine.
func rotated(b *testing.B, f *storetest.Fixture, c store.Client, before store.Issued) store.Issued {
	issued, err := f.RotateRefresh(context.Background(), store.Refresh{Client: c, Token: before.RefreshToken})
	if err != nil {
		b.Error(err)
		return before
	}
	return issued
}
