package pgkv

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"tollhouse/store/kv/pgkv/pgtest"
)

// TestPlansUseIndexes prepares the statements while the table is empty, as a new server
// does, and looks at their plans when it is full.
func TestPlansUseIndexes(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), Options{URL: pgtest.Start(t), patience: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c, err := db.dial(t.Context(), roleReader)
	if err != nil {
		t.Fatal(err)
	}
	defer c.discard()
	exec := func(sql string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	statements := []struct {
		statement
		params, values string
	}{
		{getRows, "bytea[]", "array['\\x01', '\\x02']::bytea[]"},
		{scanUp, "bytea, bytea, bigint", "'\\x01', '\\x02', 100"},
		{scanDown, "bytea, bytea, bigint", "'\\x01', '\\x02', 100"},
		{scanKeysUp, "bytea, bytea, bigint", "'\\x01', '\\x02', 100"},
		{scanKeysDown, "bytea, bytea, bigint", "'\\x01', '\\x02', 100"},
		{readRecords, "bytea, bigint", "'\\x01', 100"},
		{deleteRows, "bytea[]", "array['\\x01']::bytea[]"},
		{findExpired, "bigint", "500"},
		{dropExpired, "bytea[]", "array['\\x01']::bytea[]"},
	}
	name := func(i int) string { return fmt.Sprintf("planned%d", i) }
	for i, s := range statements {
		exec(fmt.Sprintf("prepare %s (%s) as %s", name(i), s.params, db.in(s.statement).sql))
		exec(fmt.Sprintf("explain execute %s (%s)", name(i), s.values))
	}
	exec(in(`insert into KV select sha256(int8send(i)), repeat('v', 200)::bytea, i % 2 * i from generate_series(1, 20000) i; analyze KV`, 1))
	// An incremental sort reads in the order of an index and sorts what is equal in it.
	bad := regexp.MustCompile(`(?m)Seq Scan|^\W*Sort\s+\(`)
	for i, s := range statements {
		plan := explain(t, c, fmt.Sprintf("explain execute %s (%s)", name(i), s.values))
		if bad.MatchString(plan) {
			t.Errorf("%s: the plan is\n%s", s.name, plan)
		}
	}
}

func explain(t *testing.T, c *conn, sql string) string {
	t.Helper()
	rows, err := c.Query(context.Background(), sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
