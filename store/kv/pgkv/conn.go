package pgkv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// role is what a connection is used for, as its application_name says.
type role string

const (
	roleReader    role = "reads"
	rolePresence  role = "presence"
	roleManager   role = "manages" // what concerns the database as a whole
	roleCommitter role = "commits" // its statements have no time limit: a COMMIT may wait for a standby

	// These may be idle in a transaction, and their statements may be long.
	roleOpener   role = "opens"
	roleListener role = "listens"
	roleBackup   role = "backup"
	roleLoader   role = "loads"
	roleLocker   role = "locks"
)

// nameMax is the length of an application_name that PostgreSQL keeps.
const nameMax = 63

// name returns the application_name: the operator's, if there is one, with the role if it fits.
func (r role) name(operators string) string {
	if full := cmp.Or(operators, "tollhouse") + " " + string(r); len(full) <= nameMax {
		return full
	}
	return operators
}

// settings are those of every connection. A plan for a small table must not read all of a
// large one; where there is no index, enable_seqscan makes plans look so dear that
// PostgreSQL would compile them. A process that was stopped or cut off in its turn holds the
// others up for the committer's idle limit. No other limit of the database's own may end a
// session, which may be idle for long; one of the two is unknown before PostgreSQL 17.
// PostgreSQL looks into its own schema before that of the tables, so that no function of
// another role shadows its own. A role or database may have
// other formats.
func (a *Address) settings(r role) string {
	statement, idle := "0", "0"
	switch r {
	case roleReader, rolePresence, roleManager:
		statement, idle = "5s", "10s"
	case roleCommitter:
		idle = "2s"
	}
	return fmt.Sprintf(`
		set search_path = %s, pg_temp;
		set client_encoding = 'UTF8';
		set datestyle = 'ISO, YMD';
		set timezone = 'UTC';
		set bytea_output = 'hex';
		set standard_conforming_strings = on;
		set default_transaction_isolation = 'read committed';
		set enable_seqscan = off;
		set jit = off;
		set plan_cache_mode = force_generic_plan;
		set statement_timeout = '%s';
		set lock_timeout = '3s';
		set idle_in_transaction_session_timeout = '%s';
		select set_config(name, '0', false) from unnest('{idle_session_timeout,transaction_timeout}'::text[]) name where current_setting(name, true) is not null;
		set tcp_keepalives_idle = 5;
		set tcp_keepalives_interval = 2;
		set tcp_keepalives_count = 3`, a.quotedSchema(), statement, idle)
}

// conn is one connection with its prepared statements.
type conn struct {
	*pgx.Conn
	epoch    uint64           // of the pool, when it was made
	until    time.Time        // when it has to be replaced
	place    string           // the hosts and the database of its address
	used     bool             // before its present use
	ending   *pgconn.Pipeline // a rollback whose answer was not read yet, or nil
	noticed  bool             // the server sent a warning
	rows     int              // of the last exchange
	prepared map[string]bool
}

// statement is a prepared statement by its name.
type statement struct{ name, sql string }

// call is a statement with its parameters, and what is done with each row. The values
// are valid until row returns.
type call struct {
	statement
	params [][]byte
	row    func(values [][]byte)
}

var binaryFormat = []int16{pgx.BinaryFormatCode}

// exchange sends calls in one round trip and reads their answers. It returns the first
// error; the calls after it were not run. After limit it gives the connection up; 0 is no
// limit. It does not follow a caller's context, whose cancellation would cost the connection.
func (c *conn) exchange(limit time.Duration, calls ...call) error {
	if err := c.settle(connectionWait); err != nil {
		return err
	}
	ctx := context.Background()
	if limit > 0 {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		ctx = limited
	}
	p := c.PgConn().StartPipeline(ctx)
	if err := c.prepareAll(p, calls); err != nil {
		return cmp.Or(err, p.Close())
	}
	for _, call := range calls {
		p.SendQueryPrepared(call.name, call.params, binaryFormat, binaryFormat)
	}
	err := p.Sync()
	c.rows = 0
	for i := 0; err == nil && i < len(calls); i++ {
		err = c.readAnswer(p, calls[i].row)
	}
	return cmp.Or(err, p.Close())
}

// prepareAll prepares the statements of calls that this connection does not know.
func (c *conn) prepareAll(p *pgconn.Pipeline, calls []call) error {
	missing := 0
	for _, call := range calls {
		if !c.prepared[call.name] {
			p.SendPrepare(call.name, call.sql, nil)
			c.prepared[call.name] = true
			missing++
		}
	}
	if missing == 0 {
		return nil
	}
	if err := p.Sync(); err != nil {
		return err
	}
	for range missing + 1 { // the sync answers too
		if _, err := p.GetResults(); err != nil {
			clear(c.prepared) // of the next connection; this one is given up
			return err
		}
	}
	return nil
}

func (c *conn) readAnswer(p *pgconn.Pipeline, row func([][]byte)) error {
	results, err := p.GetResults()
	if err != nil {
		return err
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return errors.New("pgkv: an answer is missing")
	}
	for reader.NextRow() {
		c.rows++
		if row != nil {
			row(reader.Values())
		}
	}
	_, err = reader.Close()
	return err
}

var rollback = statement{"rollback", "rollback"}

// leave ends the transaction without waiting for the answer.
func (c *conn) leave() {
	p := c.PgConn().StartPipeline(context.Background())
	if !c.prepared[rollback.name] {
		p.SendPrepare(rollback.name, rollback.sql, nil)
		c.prepared[rollback.name] = true
	}
	p.SendQueryPrepared(rollback.name, nil, nil, nil)
	_ = p.Sync() // settle finds the error
	c.ending = p
}

// settle reads the answer that leave did not wait for.
func (c *conn) settle(limit time.Duration) error {
	if c.ending == nil {
		return nil
	}
	p := c.ending
	c.ending = nil
	network := c.PgConn().Conn()
	_ = network.SetReadDeadline(time.Now().Add(limit))
	defer func() { _ = network.SetReadDeadline(time.Time{}) }()
	return p.Close()
}

// discard closes the connection without waiting for it.
func (c *conn) discard() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx)
}

// dial connects to the primary.
func (db *DB) dial(ctx context.Context, r role) (*conn, error) {
	c, err := db.address.dial(ctx, r, func(*pgx.ConnConfig) {})
	if err != nil {
		return nil, err
	}
	c.until = time.Now().Add(db.opts.life - rand.N(db.opts.life/10))
	if was := db.place.Swap(&c.place); was != nil && *was != c.place {
		db.pool.reset() // what is read here and written there would not fit together
	}
	return c, nil
}

// ask connects to the first host that is a primary, and begins with the last one that was.
// Each is asked separately: pgx would believe the first one that refuses the user or does not
// know the database. Each has its share of the time, since one that is down does not answer.
func (a *Address) ask(ctx context.Context, now *Address, r role, change func(*pgx.ConnConfig)) (*conn, error) {
	var failed hostsError
	hosts, first := now.each(), int(a.primary.Load())
	end, ends := ctx.Deadline()
	tries := len(hosts)
	if ends && tries > 1 {
		tries++ // when the others refuse immediately, the last primary may only be slow
	}
	for i := range tries {
		at := (first + i) % len(hosts)
		change(hosts[at])
		asking, cancel := ctx, context.CancelFunc(func() {})
		if ends && i < len(hosts) {
			asking, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(hosts)-i))
		}
		c, err := a.connect(asking, hosts[at], r)
		cancel()
		if err == nil {
			a.primary.Store(int64(at))
			c.place = fmt.Sprint(now.Hosts(), now.config.Database)
			return c, nil
		}
		if i < len(hosts) {
			failed = append(failed, &hostError{hostPort(hosts[at].Host, hosts[at].Port), hosts[at], err})
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

func (a *Address) connect(ctx context.Context, config *pgx.ConnConfig, r role) (*conn, error) {
	c := &conn{prepared: map[string]bool{}}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		c.noticed = c.noticed || n.SeverityUnlocalized == "WARNING"
	}
	dialer := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
		Control:         limitUnacknowledged,
	}
	connected := false
	config.ValidateConnect = isPrimary
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected && r == roleCommitter {
			// pgx dials again to cancel what runs on a connection that broke. A COMMIT
			// must not be cancelled while it waits for a standby.
			return nil, errNoCancel
		}
		return dialer.DialContext(ctx, network, address)
	}
	config.RuntimeParams["application_name"] = r.name(config.RuntimeParams["application_name"])
	var err error
	if c.Conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	connected = true
	if _, err := c.PgConn().Exec(ctx, a.settings(r)).ReadAll(); err != nil {
		c.discard()
		return nil, err
	}
	return c, nil
}

// isPrimary refuses a server that does not take writes.
func isPrimary(ctx context.Context, c *pgconn.PgConn) error {
	if err := pgconn.ValidateConnectTargetSessionAttrsReadWrite(ctx, c); !errors.Is(err, pgconn.ErrReadOnlyConnection) {
		return err
	}
	if err := pgconn.ValidateConnectTargetSessionAttrsPrimary(ctx, c); errors.Is(err, pgconn.ErrStandbyConnection) {
		return errReplica
	}
	return errReadOnly
}

var errNoCancel = errors.New("pgkv: a commit is not cancelled")

// each returns a configuration for each host.
func (a *Address) each() []*pgx.ConnConfig {
	var hosts []*pgx.ConnConfig
	last := ""
	add := func(f pgconn.FallbackConfig) {
		host := fmt.Sprint(f.Host, "\x00", f.Port)
		if host == last { // without TLS
			one := hosts[len(hosts)-1]
			one.Fallbacks = append(one.Fallbacks, &f)
			return
		}
		last = host
		one := a.config.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		hosts = append(hosts, one)
	}
	add(pgconn.FallbackConfig{Host: a.config.Host, Port: a.config.Port, TLSConfig: a.config.TLSConfig})
	for _, f := range a.config.Fallbacks {
		add(*f)
	}
	return hosts
}
