package pgkv

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"tollhouse/store/kv"
)

const (
	layout     = 2      // of the tables; layout_since has the first release that knows it
	versionMin = 150000 // PostgreSQL 15
)

// tables are created by the first process. k and v are bytea and never text, whose
// order changes with collations. x is the Unix second from which a row may be dropped, 0
// for never. Whoever holds the lock on the only row of turn may commit. They are in the
// schema of the address, which the search path of each connection has.
const tables = `
create table turn (id int primary key);
create table mark (server bytea, seq bigint, at timestamptz not null, primary key (server, seq));
create table site (name text primary key, value text not null);
create table server (id bytea primary key, told jsonb not null, seen timestamptz not null);
insert into turn values (1);
insert into site values ('layout', '2'), ('layout_since', '1.0.0'), ('generation', '1'), ('instance', gen_random_uuid()::text)`

// n numbers the versions of a key, of which only the last is not deleted: see
// [committer.countVersions].
const generationTable = `
create table KV (k bytea, v bytea not null, x bigint not null default 0, n bigint not null default 0, primary key (k, n))
	with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02);
alter table KV alter column v set storage external;
create index on KV (x) where x > 0`

// tableName returns the name of a generation's table within the schema.
func tableName(generation int) string { return fmt.Sprintf("kv_%04d", generation) }

// in puts the table of a generation for KV.
func in(sql string, generation int) string {
	return strings.ReplaceAll(sql, "KV", tableName(generation))
}

// site is the identity of a store.
type site struct {
	generation int
	instance   string
}

var readSite = statement{"site", "select name, value from site where name in ('generation', 'instance')"}

// call reads the site into s.
func (s *site) call() call {
	return call{statement: readSite, row: func(v [][]byte) {
		if string(v[0]) == "instance" {
			s.instance = string(v[1])
			return
		}
		s.generation, _ = strconv.Atoi(string(v[1]))
	}}
}

// prepare checks the server, creates and checks the tables, and reads what they are.
func (db *DB) prepare(ctx context.Context) error {
	c, err := db.dial(ctx, roleOpener)
	if err != nil {
		return db.unavailable(err)
	}
	defer c.discard()
	refusal, err := db.examine(ctx, c)
	if err != nil {
		return db.unavailable(err)
	}
	if refusal != nil {
		return refusal
	}
	return nil
}

func (db *DB) examine(ctx context.Context, c *conn) (refusal, err error) {
	if refusal, err = checkServer(ctx, c.Conn); refusal != nil || err != nil {
		return refusal, err
	}
	if refusal, err = db.address.checkPrivileges(ctx, c.Conn, db.opts.Next); refusal != nil || err != nil {
		return refusal, err
	}
	exists := false
	if err = c.QueryRow(ctx, areMade, db.address.schema).Scan(&exists); err != nil {
		return nil, err
	}
	if !exists {
		if err = db.createTables(ctx, c); err != nil {
			return nil, err
		}
	}
	var found, since string
	err = c.QueryRow(ctx, `select value, coalesce((select 'tollhouse ' || value || ' or newer' from site where name = 'layout_since'), ''),
		decode(replace(gen_random_uuid()::text, '-', ''), 'hex') from site where name = 'layout'`).Scan(&found, &since, &db.server)
	if err != nil {
		return nil, err
	}
	if found == "1" {
		return db.convertTables(ctx, c)
	}
	if found != strconv.Itoa(layout) {
		return &RefusedError{
			Reason: fmt.Sprintf("the tables have layout %s, and this version of tollhouse knows %d", found, layout),
			Remedy: "start " + cmp.Or(since, "the version of tollhouse that the other servers run, or a newer one"),
		}, nil
	}
	if err = c.exchange(0, db.site.call()); err != nil {
		return nil, err
	}
	if db.opts.Next {
		return nil, db.createNext(ctx, c)
	}
	return nil, nil
}

// fromLayout1 numbers the versions of keys and keeps the marks of several groups.
const fromLayout1 = `
do $$ declare t text; begin
	for t in select tablename from pg_tables where schemaname = current_schema and tablename ~ '^kv_[0-9]+$' loop
		execute format('alter table %1$I add n bigint not null default 0, drop constraint %2$I, add primary key (k, n)', t, t || '_pkey');
	end loop;
end $$;
alter table mark drop constraint mark_pkey, add primary key (server, seq);
update site set value = '2' where name = 'layout'`

// convertTables makes the tables those of the present layout, and examines them again.
func (db *DB) convertTables(ctx context.Context, c *conn) (refusal, err error) {
	alone := false
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, db.address.lockTables()); err != nil {
			return err
		}
		err := tx.QueryRow(ctx, "select pg_try_advisory_xact_lock("+db.address.lock(lockServer)+")").Scan(&alone)
		if err != nil || !alone {
			return err
		}
		_, err = tx.Conn().PgConn().Exec(ctx, fromLayout1).ReadAll()
		return err
	})
	if err == nil && !alone {
		return &RefusedError{Reason: "servers run that know layout 1 of the tables, which this one would convert", Remedy: "stop them first"}, nil
	}
	if err != nil {
		return nil, err
	}
	return db.examine(ctx, c)
}

func checkServer(ctx context.Context, c *pgx.Conn) (refusal, err error) {
	var product string
	var version int
	err = c.QueryRow(ctx, "select version(), current_setting('server_version_num')::int").Scan(&product, &version)
	if err != nil {
		return nil, err
	}
	return checkProduct(product, version), nil
}

// PostgreSQL's version() has the number, what its packager added, and the compiler. Products
// made from PostgreSQL or that speak its protocol add to the number, name themselves, or say no
// compiler.
var (
	ordinaryVersion = regexp.MustCompile(`^PostgreSQL \d+(\.\d+)*((alpha|beta|rc)\d+|devel)?[ ,].*compiled by `)
	otherProduct    = regexp.MustCompile(`(?i)cloudberry|enterprisedb|gauss|greenplum|ivorysql|materialize|orioledb|polardb|questdb|redshift|yugabyte`)
)

func checkProduct(product string, version int) error {
	switch {
	case !ordinaryVersion.MatchString(product) || otherProduct.MatchString(product):
		return &RefusedError{
			Reason: fmt.Sprintf("the database is not PostgreSQL, but calls itself %q", product),
			Remedy: "use PostgreSQL 15 or newer; tollhouse is tested with no other database",
		}
	case version < versionMin:
		return &RefusedError{
			Reason: fmt.Sprintf("the database is PostgreSQL %d, and tollhouse needs 15 or newer", version/10000),
			Remedy: "upgrade the database",
		}
	}
	return nil
}

// lockTables keeps all others from creating tables until the transaction ends.
func (a *Address) lockTables() string {
	return "select pg_advisory_xact_lock(" + a.lock(lockSchema) + ")"
}

// areMade reads the catalog. to_regclass may remember that a table did not exist.
const areMade = "select exists (select from pg_tables where schemaname = $1 and tablename = 'site')"

func (db *DB) createTables(ctx context.Context, c *conn) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, db.address.lockTables()); err != nil {
			return err
		}
		exists := false
		err := tx.QueryRow(ctx, areMade, db.address.schema).Scan(&exists)
		if err != nil || exists {
			return err
		}
		// Only the first start needs the right to create a schema.
		err = tx.QueryRow(ctx, "select exists (select from pg_namespace where nspname = $1)", db.address.schema).Scan(&exists)
		if err == nil && !exists {
			_, err = tx.Exec(ctx, "create schema "+db.address.quotedSchema())
		}
		if err != nil {
			return err
		}
		_, err = tx.Conn().PgConn().Exec(ctx, tables+";"+in(generationTable, 1)).ReadAll()
		return err
	})
}

// createNext creates the generation after the current one, in place of one that was not
// finished.
func (db *DB) createNext(ctx context.Context, c *conn) error {
	db.site.generation++
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, db.address.lockTables()); err != nil {
			return err
		}
		_, err := tx.Conn().PgConn().Exec(ctx, in("drop table if exists KV;"+generationTable, db.site.generation)).ReadAll()
		return err
	})
}

var errAdopted = fmt.Errorf("%w: another command has replaced the data meanwhile", kv.ErrUnavailable)

// Adopt makes the generation that was opened as Options.Next the current one. Processes
// that have the old one open stop. The old one is kept until the next after this.
func (db *DB) Adopt(ctx context.Context) error {
	c, err := db.dial(ctx, roleOpener)
	if err != nil {
		return db.unavailable(err)
	}
	defer c.discard()
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select 1 from turn where id = 1 for update"); err != nil {
			return err
		}
		moved, err := tx.Exec(ctx, "update site set value = $1 where name = 'generation' and value = $2",
			strconv.Itoa(db.site.generation), strconv.Itoa(db.site.generation-1))
		switch {
		case err != nil:
			return err
		case moved.RowsAffected() != 1:
			return errAdopted
		case db.site.generation < 3:
			return nil
		}
		_, err = tx.Exec(ctx, in("drop table if exists KV", db.site.generation-2))
		return err
	})
	if err != nil {
		return db.unavailable(err)
	}
	db.isNext.Store(false)
	return nil
}

// Instance returns the name that this store got when its tables were created.
func (db *DB) Instance() string { return db.site.instance }
