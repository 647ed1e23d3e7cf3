package storetest

import (
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// Trips is a store in a database that counts what the store asks of it.
type Trips struct {
	*Fixture
	server *pgtest.Server
	dsn    string
	logged int // bytes of the log that were read
}

// NewTrips returns an empty Trips.
func NewTrips(t testing.TB) *Trips {
	t.Helper()
	server := pgtest.New(t, "log_statement = 'all'")
	dsn := server.Database(t)
	return &Trips{OnPostgres(t, dsn, func(o *store.Options) { o.SegmentEvents = 0 }), server, dsn, 0}
}

// RoundTrips returns how often the store has waited for an answer since the last call. The
// statement that begins a transaction is sent with its first read, and a commit with the writes.
func (tr *Trips) RoundTrips(t testing.TB) (n int) {
	t.Helper()
	log := tr.server.Log(t)
	for _, statement := range []string{"get: ", "scan ", "write"} {
		n += strings.Count(log[tr.logged:], "execute "+statement)
	}
	tr.logged = len(log)
	return n
}

// Transactions closes the store, so that its connections report what they did, and returns the
// number of transactions that pg_stat_database has counted.
func (tr *Trips) Transactions(t testing.TB) int {
	t.Helper()
	tr.Rest()
	must.Do(t, tr.DB.Close())
	return tr.server.Transactions(t, tr.dsn)
}
