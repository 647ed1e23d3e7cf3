package pgkv

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Facts are what an operator wants to know of the database.
type Facts struct {
	Version  string // such as 15.18
	Product  string // the first word of version()
	Size     int64  // bytes of the records with their indexes
	Standbys []Standby

	Fsync, Synchronous, Seqscan string // as set for our sessions
	SyncStandbys                string // synchronous_standby_names
	Connections, Max            int    // open now, of all users; and allowed
	Left                        int    // that this user can still open
	Live, Dead                  int64  // rows of the records
	Copied                      string // names a session on another database that says to serve the same store, or ""
	Database, User              string // quoted for SQL
	PublicConnects              bool   // any role of the cluster may connect to the database
}

// LosesWrites reports whether a crash of the database, or a fail-over, can undo acknowledged writes.
func (f *Facts) LosesWrites() bool {
	return f.Fsync != "on" || f.Synchronous == "off" || f.Synchronous == "local" && f.SyncStandbys != ""
}

// Standby is a standby of the database.
type Standby struct {
	Name, State, Sync string // "" where the user may not see it
}

// Facts reads them in a few statements. Errors: *[AwayError].
func (s *Session) Facts(ctx context.Context) (f Facts, err error) {
	made, err := s.IsMade(ctx)
	site := map[string]string{}
	if err == nil && made {
		site, err = s.Site(ctx)
	}
	if err != nil {
		return f, err
	}
	if f.Size, err = s.size(ctx, site); err != nil {
		return f, err
	}
	table := tableOf(site)
	err = s.conn.QueryRow(ctx, `select split_part(current_setting('server_version'), ' ', 1), split_part(version(), ' ', 1), current_setting('fsync'), current_setting('synchronous_commit'), current_setting('enable_seqscan'), current_setting('synchronous_standby_names'),
		used.of_all, current_setting('max_connections')::int,
		least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - coalesce(current_setting('reserved_connections', true)::int, 0) - used.of_all,
			(select datconnlimit - used.of_database from pg_database where datname = current_database() and datconnlimit >= 0),
			(select rolconnlimit - used.of_user from pg_roles where rolname = current_user and rolconnlimit >= 0)),
		coalesce((select n_live_tup from pg_stat_user_tables where schemaname = $4 and relname = $1), 0),
		coalesce((select n_dead_tup from pg_stat_user_tables where schemaname = $4 and relname = $1), 0),
		coalesce((select format('process %s of role "%s" on the database "%s"', l.pid, a.usename, d.datname) from pg_locks l join pg_database d on d.oid = l.database left join pg_stat_activity a on a.pid = l.pid
			where l.locktype = 'advisory' and l.granted and l.objsubid = 2 and l.classid = $2::int8::oid and l.objid = $3::int8::oid and d.datname <> current_database() order by l.pid limit 1), ''),
		quote_ident(current_database()), quote_ident(current_user), has_database_privilege('public', current_database(), 'connect')
		from (select count(*) filter (where usename is not null)::int as of_all, (count(*) filter (where datname = current_database()))::int as of_database, (count(*) filter (where usename = current_user))::int as of_user from pg_stat_activity) used`,
		table, lockInstance, instanceNumber(site), s.address.schema).Scan(
		&f.Version, &f.Product, &f.Fsync, &f.Synchronous, &f.Seqscan, &f.SyncStandbys, &f.Connections, &f.Max, &f.Left, &f.Live, &f.Dead, &f.Copied,
		&f.Database, &f.User, &f.PublicConnects)
	if err != nil {
		return f, asAway(ctx, err)
	}
	f.Standbys, err = s.standbys(ctx)
	return f, err
}

func (s *Session) standbys(ctx context.Context) ([]Standby, error) {
	rows, err := s.conn.Query(ctx, "select coalesce(application_name, ''), coalesce(state, ''), coalesce(sync_state, '') from pg_stat_replication order by 1")
	if err != nil {
		return nil, asAway(ctx, err)
	}
	standbys, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Standby])
	if err != nil {
		return nil, asAway(ctx, err)
	}
	return standbys, nil
}

func (s *Session) size(ctx context.Context, site map[string]string) (int64, error) {
	return one[int64](ctx, s, "select coalesce(pg_total_relation_size(to_regclass($1)), 0)", tableOf(site))
}

// tableOf returns the table that the site's generation names.
func tableOf(site map[string]string) string {
	generation, _ := strconv.Atoi(site["generation"])
	return fmt.Sprintf("kv_%04d", generation)
}

// unfit returns why the database cannot serve as it is now, or nil.
func (s *Session) unfit(ctx context.Context) (refusal, err error) {
	if refusal, err = checkServer(ctx, s.conn); refusal == nil && err == nil {
		refusal, err = s.address.checkPrivileges(ctx, s.conn, false)
	}
	if err != nil {
		return nil, asAway(ctx, err)
	}
	return refusal, nil
}
