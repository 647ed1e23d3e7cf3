package pgkv

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// The table site has the settings of the whole database. The engine keeps its layout and
// generation there, and servers their shared settings.
const (
	SiteKey     = "key"     // the fingerprint of the server key
	SiteDamage  = "damage"  // what the last check found, or ""
	siteChecked = "checked" // when it finished, in Unix seconds
	SiteSettled = "settled" // "on" once a command has set what servers share: none replaces it
)

// Site returns all values by their names.
func (s *Session) Site(ctx context.Context) (map[string]string, error) {
	return s.siteBy(ctx, "select name, value from site")
}

func (s *Session) siteBy(ctx context.Context, query string) (map[string]string, error) {
	rows, err := s.conn.Query(ctx, query)
	if err != nil {
		return nil, asAway(ctx, err)
	}
	site := map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		site[name] = value
		return nil
	})
	if err != nil {
		return nil, asAway(ctx, err)
	}
	return site, nil
}

// SetSite sets values.
func (s *Session) SetSite(ctx context.Context, values map[string]string) error {
	batch := &pgx.Batch{}
	for name, value := range values {
		batch.Queue("insert into site (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value", name, value)
	}
	if err := s.conn.SendBatch(ctx, batch).Close(); err != nil {
		return asAway(ctx, err)
	}
	return nil
}

// ChangeSite sets what change returns for the present values, while servers run. No other
// command changes them meanwhile, and no server that starts alone. The caller then closes the
// session. Errors: [ErrExclusive].
func (s *Session) ChangeSite(ctx context.Context, change func(site map[string]string) (map[string]string, error)) error {
	if err := s.shareServers(ctx); err != nil {
		return err
	}
	if err := s.exec(ctx, "begin"); err != nil {
		return err
	}
	site, err := s.siteBy(ctx, "select name, value from site for update")
	if err != nil {
		return err
	}
	values, err := change(site)
	if err != nil {
		return err
	}
	if err := s.SetSite(ctx, values); err != nil {
		return err
	}
	return s.exec(ctx, "commit")
}

// IsMade reports whether the database has tollhouse's tables.
func (s *Session) IsMade(ctx context.Context) (bool, error) {
	return one[bool](ctx, s, "select to_regclass('site') is not null")
}
