package handlers

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"tollhouse/store/storetest"
)

// InTurns hands every request to another server than the last, as requests behind a load
// balancer come to them. What a server writes after its answer is written before the next
// request: tests count records.
func InTurns(f *storetest.Fixture, first, second http.Handler) http.Handler {
	var turns atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if turns.Add(1)%2 == 0 {
			first.ServeHTTP(w, r)
			f.Flush(context.WithoutCancel(r.Context()))
			return
		}
		second.ServeHTTP(w, r)
		f.Other.Flush(context.WithoutCancel(r.Context()))
	})
}

// TestPlatformOnEngines: on disk, and on two servers that get the requests in turns.
//
// Promise (Platform §8, §16): each promise of the platform API is kept on Badger, and by two servers
// on one PostgreSQL that get the requests in turns
func TestPlatformOnEngines(t *testing.T) {
	storetest.Again(t, `Platform §[1-8]`, "badger", "servers")
}

// TestSecondFactorOnEngines: the same of the second factor.
//
// Promise (Guard §6): each promise of the second factor is kept on Badger, and by two servers on one
// PostgreSQL that get the requests in turns
func TestSecondFactorOnEngines(t *testing.T) {
	storetest.Again(t, `Guard §[1-6]`, "badger", "servers")
}
