package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"
)

// The peers over SQL are what one would write by hand: tokens by their SHA-256, events as
// their JSON next to what is searched, an index for each list, prepared statements, and a
// transaction for each rotation.

// sqlEvent is a row of events.
type sqlEvent struct {
	id, typ   string
	createdAt int64
	body      string
}

// savedEvents reads what saveEvents wrote.
func savedEvents(dir string, take func(sqlEvent) error) error {
	file, err := os.Open(filepath.Join(dir, "events.ndjson"))
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			ID, Type  string
			CreatedAt int64
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return err
		}
		if err := take(sqlEvent{e.ID, e.Type, e.CreatedAt, lines.Text()}); err != nil {
			return err
		}
	}
	return lines.Err()
}

func hashed(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// sqlStore is what the two databases do alike for an events API.
type sqlStore interface {
	// authorized reports whether an access token is live.
	authorized(ctx context.Context, hash []byte) (bool, error)
	page(ctx context.Context, typ string, before int64, limit int) ([]string, error)
	event(ctx context.Context, id string) (string, error)
}

// authorized calls next if the request has a live access token.
func authorized(s sqlStore, next func(r *http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		ok, err := s.authorized(r.Context(), hashed(token))
		if err == nil && !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var body []byte
		if err == nil {
			body, err = next(r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	}
}

// eventRoutes serves pages of one type, and events by id.
func eventRoutes(mux *http.ServeMux, s sqlStore) {
	mux.HandleFunc("GET /api/events", authorized(s, func(r *http.Request) ([]byte, error) {
		q := r.URL.Query()
		limit, _ := strconv.Atoi(q.Get("limit"))
		before, _ := strconv.ParseInt(cmp.Or(q.Get("createdAt[lte]"), "99999999999"), 10, 64)
		rows, err := s.page(r.Context(), q.Get("type"), before, limit+1)
		if err != nil {
			return nil, err
		}
		more := len(rows) > limit
		rows = rows[:min(limit, len(rows))]
		body := append(make([]byte, 0, 128<<10), `{"object":"list","data":[`...)
		for i, row := range rows {
			if i > 0 {
				body = append(body, ',')
			}
			body = append(body, row...)
		}
		return fmt.Appendf(body, `],"hasMore":%t}`, more), nil
	}))
	mux.HandleFunc("GET /api/events/{id}", authorized(s, func(r *http.Request) ([]byte, error) {
		body, err := s.event(r.Context(), r.PathValue("id"))
		return []byte(body), err
	}))
}

const (
	sqlSchema = `
create table events (id text primary key, type text not null, created_at bigint not null, body text not null);
create table clients (id text primary key, secret bytea not null);
create table access_tokens (hash bytea primary key, family text not null, expires_at bigint not null);
create table refresh_tokens (hash bytea primary key, family text not null, expires_at bigint not null, used_at bigint);`
	sqlIndex = `create index events_by_type on events (type, created_at desc, id desc)`

	sqlResources = `
create table log (account text primary key, head bigint not null) with (fillfactor = 50);
create table resources (kind text, id text, last bigint not null, body text not null, primary key (kind, id));
insert into log values ('acct_bench', 0)`
	// An event of a change, at the end of the account's log, and the resource.
	sqlPut = `with head as (update log set head = head + 1 where account = 'acct_bench' returning head),
added as (insert into events select 'put_' || head, $1 || '.updated', $4, $3 from head)
insert into resources select $1, $2, head, $3 from head on conflict (kind, id) do update set last = excluded.last, body = excluded.body`

	sqlAuthorized = `select count(*) from access_tokens where hash = $1 and expires_at > $2`
	sqlPage       = `select body from events where type = $1 and created_at <= $2 order by created_at desc, id desc limit $3`
	sqlEventByID  = `select body from events where id = $1`
	sqlAccess     = `insert into access_tokens (hash, family, expires_at) values ($1, $2, $3)`
	sqlRefresh    = `insert into refresh_tokens (hash, family, expires_at) values ($1, $2, $3)`
)

type sqlite struct{ authorize, list, find *sql.Stmt }

func serveSQLite(ctx context.Context, dir string) (http.Handler, error) {
	db, err := sql.Open("sqlite", "file:"+url.PathEscape(filepath.Join(dir, "peer.sqlite"))+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-32768)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, sqlSchema); err != nil {
		return nil, err
	}
	if err := insertEvents(ctx, db, dir, `insert into events values ($1, $2, $3, $4)`); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, sqlAccess, hashed(peerSecret), "bench", time.Now().Add(24*time.Hour).Unix()); err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, sqlIndex+`; analyze`); err != nil {
		return nil, err
	}
	var s sqlite
	for text, statement := range map[string]**sql.Stmt{sqlAuthorized: &s.authorize, sqlPage: &s.list, sqlEventByID: &s.find} {
		if *statement, err = db.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	eventRoutes(mux, s)
	return mux, nil
}

// insertEvents inserts what saveEvents wrote, in one transaction.
func insertEvents(ctx context.Context, db *sql.DB, dir, insert string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	statement, err := tx.PrepareContext(ctx, insert)
	if err != nil {
		return err
	}
	defer statement.Close()
	if err := savedEvents(dir, func(e sqlEvent) error {
		_, err := statement.ExecContext(ctx, e.id, e.typ, e.createdAt, e.body)
		return err
	}); err != nil {
		return err
	}
	return tx.Commit()
}

func (s sqlite) authorized(ctx context.Context, hash []byte) (bool, error) {
	var n int
	err := s.authorize.QueryRowContext(ctx, hash, time.Now().Unix()).Scan(&n)
	return n == 1, err
}

func (s sqlite) page(ctx context.Context, typ string, before int64, limit int) (bodies []string, err error) {
	rows, err := s.list.QueryContext(ctx, typ, before, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var body string
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, rows.Err()
}

func (s sqlite) event(ctx context.Context, id string) (body string, err error) {
	return body, s.find.QueryRowContext(ctx, id).Scan(&body)
}

type postgres struct{ *pgxpool.Pool }

// servePostgres starts a PostgreSQL of its own that syncs every commit, and serves from it.
func servePostgres(ctx context.Context, dir string) (http.Handler, error) {
	address, err := startPostgres(ctx, filepath.Join(dir, "pg"))
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	for range 100 {
		if err = pool.Ping(ctx); err == nil {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, sqlSchema); err != nil {
		return nil, err
	}
	var rows [][]any
	if err := savedEvents(dir, func(e sqlEvent) error {
		rows = append(rows, []any{e.id, e.typ, e.createdAt, e.body})
		return nil
	}); err != nil {
		return nil, err
	}
	if _, err := pool.CopyFrom(ctx, pgx.Identifier{"events"}, []string{"id", "type", "created_at", "body"}, pgx.CopyFromRows(rows)); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, sqlIndex); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, sqlResources); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, `vacuum analyze events`); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, `insert into clients values ($1, $2)`, peerClient, hashed(peerSecret)); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, sqlAccess, hashed(peerSecret), "bench", time.Now().Add(24*time.Hour).Unix()); err != nil {
		return nil, err
	}
	db := postgres{pool}
	mux := http.NewServeMux()
	eventRoutes(mux, db)
	mux.HandleFunc("POST /oauth/v2/token", db.token)
	mux.HandleFunc("PUT /api/resources/{kind}/{id}", authorized(db, db.put))
	return mux, nil
}

// startPostgres starts a server on a socket in dir.
func startPostgres(ctx context.Context, dir string) (address string, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return "", absent("initdb is not installed")
	}
	slices.Sort(found)
	bin := filepath.Dir(found[len(found)-1])
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	as := &syscall.SysProcAttr{Pdeathsig: syscall.SIGINT}
	if os.Getuid() == 0 { // PostgreSQL refuses root
		u, err := user.Lookup("postgres")
		if err != nil {
			return "", absent("PostgreSQL needs a user postgres to run it")
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(dir, uid, gid); err != nil {
			return "", err
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
	initdb.Dir, initdb.SysProcAttr = dir, as
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w: %s", err, out)
	}
	postmaster := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "shared_buffers=128MB")
	postmaster.Dir, postmaster.SysProcAttr = dir, as
	postmaster.Cancel = func() error { return postmaster.Process.Signal(syscall.SIGINT) }
	if err := postmaster.Start(); err != nil {
		return "", err
	}
	behindPeer.Go(func() { _ = postmaster.Wait() })
	return "host=" + dir + " user=postgres dbname=postgres", nil
}

func (db postgres) authorized(ctx context.Context, hash []byte) (bool, error) {
	var n int
	err := db.QueryRow(ctx, sqlAuthorized, hash, time.Now().Unix()).Scan(&n)
	return n == 1, err
}

func (db postgres) page(ctx context.Context, typ string, before int64, limit int) ([]string, error) {
	rows, err := db.Query(ctx, sqlPage, typ, before, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (db postgres) event(ctx context.Context, id string) (body string, err error) {
	return body, db.QueryRow(ctx, sqlEventByID, id).Scan(&body)
}

// put replaces a resource and records the event of that.
func (db postgres) put(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(r.Context(), sqlPut, r.PathValue("kind"), r.PathValue("id"), string(body), time.Now().Unix())
	return body, err
}

// token issues tokens by password, which it does not hash, and by refresh.
func (db postgres) token(w http.ResponseWriter, r *http.Request) {
	access, refresh, err := db.grant(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": access, "expires_in": 3600, "refresh_token": refresh, "token_type": "bearer"})
}

func (db postgres) grant(r *http.Request) (access, refresh string, err error) {
	ctx := r.Context()
	if err := r.ParseForm(); err != nil {
		return "", "", err
	}
	var secret []byte
	if err := db.QueryRow(ctx, `select secret from clients where id = $1`, r.PostForm.Get("client_id")).Scan(&secret); err != nil {
		return "", "", err
	}
	if subtle.ConstantTimeCompare(secret, hashed(r.PostForm.Get("client_secret"))) != 1 {
		return "", "", errors.New("wrong client secret")
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	now, family := time.Now(), rand.Text()
	next := &pgx.Batch{}
	switch r.PostForm.Get("grant_type") {
	case "refresh_token":
		old := hashed(r.PostForm.Get("refresh_token"))
		if err := tx.QueryRow(ctx, `select family from refresh_tokens where hash = $1 and used_at is null and expires_at > $2 for update`, old, now.Unix()).Scan(&family); err != nil {
			return "", "", err
		}
		next.Queue(`update refresh_tokens set used_at = $2 where hash = $1`, old, now.Unix())
	case "password":
		if r.PostForm.Get("username") != username || r.PostForm.Get("password") != password {
			return "", "", errors.New("wrong password")
		}
	default:
		return "", "", errors.New("unknown grant")
	}
	access, refresh = randomToken(), randomToken()
	next.Queue(sqlAccess, hashed(access), family, now.Add(time.Hour).Unix())
	next.Queue(sqlRefresh, hashed(refresh), family, now.Add(24*time.Hour).Unix())
	if err := tx.SendBatch(ctx, next).Close(); err != nil {
		return "", "", err
	}
	return access, refresh, tx.Commit(ctx)
}

func randomToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}
