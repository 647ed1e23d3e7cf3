package storetest

import (
	"bufio"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/history"
	"tollhouse/store/snapshot"
	"tollhouse/store/storetest/must"
)

// Fill records a generated history of that many events over the 90 days up to an hour
// ago, for the account acct_a.
func Fill(b testing.TB, s *store.Store, events int) {
	b.Helper()
	ctx := context.Background()
	im := must.Get(s.Events.NewImporter("acct_a", eventlog.ImportOptions{}))(b)
	lines := bufio.NewScanner(history.New(history.Plan{Seed: 1, Events: events, Span: 90 * 24 * time.Hour, Until: s.Now().Add(-time.Hour)}))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if refused, err := im.Add(ctx, lines.Bytes(), 0); err != nil || len(refused) > 0 {
			b.Fatal(refused, err)
		}
	}
	if refused, err := im.Flush(ctx); err != nil || len(refused) > 0 {
		b.Fatal(refused, err)
	}
}

// Writers returns a function in which that many writers each record that many events
// for the account acct_b; it returns when all are done.
func Writers(b testing.TB, s *store.Store, writers, each int, note string) (write func()) {
	b.Helper()
	object := must.Get(snapshot.Parse([]byte(`{"id":"r1","note":"`+note+`"}`), 3))(b)
	return func() {
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for range each {
					e := eventlog.NewEvent{Owner: "acct_b", Type: "plan.updated", Resource: "r1", Source: "bench", Location: fmt.Sprint(w), Object: object}
					if _, err := s.Events.RecordEvent(context.Background(), e); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
}

// Beside times do while other runs repeatedly.
func Beside(do func(), other func(context.Context)) Work {
	return func() time.Duration {
		running, stop := context.WithCancel(context.Background())
		var ended sync.WaitGroup
		begun := make(chan struct{})
		ended.Go(func() {
			close(begun)
			for running.Err() == nil {
				other(running)
			}
		})
		<-begun
		took := Timed(do)()
		stop()
		ended.Wait()
		return took
	}
}
