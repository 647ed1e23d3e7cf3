package pgkv

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Place says where a store is. A fail-over and a physical copy keep it. A dump restored elsewhere,
// a database created from a template and a major upgrade change it.
type Place struct {
	System   string // identifier of the cluster, or "" if the user may not read it
	Database string // oid
}

// The place of the store at the last start of a server, in the site.
const (
	siteSystem   = "system_identifier"
	siteDatabase = "database_oid"
)

// Place returns where this session's database is. Errors: *[AwayError].
func (s *Session) Place(ctx context.Context) (p Place, err error) {
	if p.Database, err = one[string](ctx, s, "select oid::text from pg_database where datname = current_database()"); err != nil {
		return p, err
	}
	err = s.conn.QueryRow(ctx, "select system_identifier::text from pg_control_system()").Scan(&p.System)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "42501" || refused.Code == "42883") { // no privilege, or no such function
		return p, nil
	}
	if err != nil {
		return p, asAway(ctx, err)
	}
	return p, nil
}

// IsOther reports whether a site was last used in another place. What is not known does not count.
func (p Place) IsOther(site map[string]string) bool {
	return differs(site[siteSystem], p.System) || differs(site[siteDatabase], p.Database)
}

func differs(was, is string) bool { return was != "" && is != "" && was != is }

// Site returns the values by which a site remembers the place.
func (p Place) Site() map[string]string {
	set := map[string]string{siteDatabase: p.Database}
	if p.System != "" {
		set[siteSystem] = p.System
	}
	return set
}
