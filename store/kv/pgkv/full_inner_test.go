package pgkv

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"tollhouse/store/kv"
)

// TestAFullDatabaseIsNotAway: an update that the database refuses because its disk is full
// says so, and not that the database does not answer.
//
// Promise (Credentials, memory, connections): a full disk of a database is said to be full
func TestAFullDatabaseIsNotAway(t *testing.T) {
	t.Parallel()
	db := &DB{}
	err := db.unavailable(&pgconn.PgError{Code: "53100", Message: "could not extend file"}) // disk_full
	var full interface{ Hint() string }
	if !errors.Is(err, kv.ErrFull) || errors.Is(err, kv.ErrAway) || !errors.As(err, &full) || full.Hint() == "" {
		t.Errorf("a full disk of the database = %v, want ErrFull with the next step", err)
	}
}
