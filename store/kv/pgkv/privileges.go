package pgkv

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// lacking lists what the user lacks, as grant takes it. has_table_privilege with several
// privileges reports whether there is one of them, so each is asked for.
const lacking = `
with ours as (select oid, quote_ident(nspname) as name from pg_namespace where nspname = $1),
	tables as (select c.oid, c.relname from pg_class c join ours on c.relnamespace = ours.oid where c.relkind = 'r'),
	each as (select string_agg(p, ', ' order by n) as lacks, relname from tables, unnest('{select,insert,update,delete}'::text[]) with ordinality as u (p, n) where not has_table_privilege(tables.oid, p) group by relname)
select 'create on database ' || quote_ident(current_database()) where not exists (select from ours) and not has_database_privilege(current_database(), 'create')
union all select 'usage on schema ' || name from ours where not has_schema_privilege(oid, 'usage')
union all select 'create on schema ' || name from ours where ($2 or not exists (select from tables where relname = 'site')) and not has_schema_privilege(oid, 'create')
union all select lacks || ' on ' || string_agg(name || '.' || relname, ', ' order by relname) from each, ours group by lacks`

// checkPrivileges refuses a user that lacks a privilege, and names each. makes says that a table
// will be created.
func (a *Address) checkPrivileges(ctx context.Context, c *pgx.Conn, makes bool) (refusal, err error) {
	rows, err := c.Query(ctx, lacking, a.schema, makes)
	if err != nil {
		return nil, err
	}
	lacks, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(lacks) == 0 {
		return nil, err
	}
	user := ""
	if err := c.QueryRow(ctx, "select quote_ident(current_user)").Scan(&user); err != nil {
		return nil, err
	}
	var grants []string
	for _, lack := range lacks {
		grants = append(grants, "grant "+lack+" to "+user)
	}
	return &RefusedError{
		Reason: "the user of the database lacks privileges: " + strings.Join(lacks, "; "),
		Remedy: "as the owner: " + strings.Join(grants, "; "),
	}, nil
}
