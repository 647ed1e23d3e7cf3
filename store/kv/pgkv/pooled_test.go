package pgkv_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"tollhouse/store/kv/pgkv"
	"tollhouse/store/kv/pgkv/pgtest"
	"tollhouse/store/storetest/must"
)

// pooler gives a connection of the database to a client for one transaction, as PgBouncer
// does with pool_mode = transaction. The one returned last is given away first.
type pooler struct {
	to *pgx.ConnConfig

	mu   sync.Mutex
	idle []*pgproto3.Frontend
}

// newPooler returns the URL of the database through a pooler.
func newPooler(t *testing.T, a *pgkv.Address) *pgkv.Address {
	t.Helper()
	p := &pooler{to: must.Get(pgx.ParseConfig(a.URL()))(t)}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				_ = p.serve(client)
			}()
		}
	}()
	return must.Get(pgkv.ParseAddress("postgres://" + p.to.User + "@" + l.Addr().String() + "/" + p.to.Database + "?sslmode=disable"))(t)
}

func (p *pooler) serve(conn net.Conn) error {
	client := pgproto3.NewBackend(conn, conn)
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return err
	}
	client.Send(&pgproto3.AuthenticationOk{})
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if err := client.Flush(); err != nil {
		return err
	}
	for {
		if err := p.transaction(client); err != nil {
			return err
		}
	}
}

// transaction passes messages on until the database is idle again.
func (p *pooler) transaction(client *pgproto3.Backend) error {
	message, err := client.Receive()
	if err != nil {
		return err
	}
	server, err := p.take()
	if err != nil {
		return err
	}
	for {
		server.Send(message)
		switch message.(type) {
		case *pgproto3.Terminate:
			return net.ErrClosed
		case *pgproto3.Query, *pgproto3.Sync:
			idle, err := answer(server, client)
			if err != nil {
				return err
			}
			if idle {
				p.put(server)
				return nil
			}
		}
		if message, err = client.Receive(); err != nil {
			return err
		}
	}
}

func answer(server *pgproto3.Frontend, client *pgproto3.Backend) (idle bool, err error) {
	if err := server.Flush(); err != nil {
		return false, err
	}
	for {
		message, err := server.Receive()
		if err != nil {
			return false, err
		}
		client.Send(message)
		if ready, ok := message.(*pgproto3.ReadyForQuery); ok {
			return ready.TxStatus == 'I', client.Flush()
		}
	}
}

func (p *pooler) put(server *pgproto3.Frontend) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, server)
}

func (p *pooler) take() (*pgproto3.Frontend, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		server := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return server, nil
	}
	p.mu.Unlock()
	network := "tcp"
	address := p.to.Host
	if strings.HasPrefix(address, "/") {
		network, address = "unix", address+"/.s.PGSQL.5432"
	}
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	server := pgproto3.NewFrontend(conn, conn)
	server.Send(&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": p.to.User, "database": p.to.Database}})
	if err := server.Flush(); err != nil {
		return nil, err
	}
	for {
		message, err := server.Receive()
		if err != nil {
			return nil, err
		}
		if _, ready := message.(*pgproto3.ReadyForQuery); ready {
			return server, nil
		}
	}
}

// A pooler in transaction mode would share this server's locks with others.
func TestTransactionPoolerIsFound(t *testing.T) {
	t.Parallel()
	a := madeDatabase(t)
	var refused *pgkv.RefusedError
	if _, err := pgkv.Join(t.Context(), quiet(newPooler(t, a), "pooled")); !errors.As(err, &refused) || !strings.HasPrefix(refused.Reason, "a connection pooler in transaction mode") {
		t.Errorf("Join() through the pooler = %v, want it refused", err)
	}
	p, err := pgkv.Join(t.Context(), quiet(a, "direct"))
	if err != nil {
		t.Fatalf("Join() = %v, want nil", err)
	}
	p.Leave()
}

// Promise (Postgres §3, §9): PgBouncer in transaction or statement mode is named at every start and by
// every command, also when others use it; in session mode it is not noticed.
func TestPgBouncerIsNamed(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := pgtest.New(t, "fsync = off")
	s.Exec(t, s.DSN("postgres"), "create role app login superuser")
	for _, mode := range []string{"session", "transaction", "statement"} {
		for _, order := range []string{"0", "1"} {
			t.Run(mode+order, func(t *testing.T) {
				t.Parallel()
				address := s.Bouncer(t, mode, map[string]string{"app": "right"}, "server_round_robin = "+order)
				url := "postgres://app:right@" + address + "/postgres"
				busy, rest := context.WithCancel(t.Context())
				var users sync.WaitGroup
				defer users.Wait()
				defer rest()
				for range 3 {
					users.Go(func() {
						for busy.Err() == nil {
							useShortly(busy, url)
						}
					})
				}
				a := must.Get(pgkv.ParseAddress(url + "?connect_timeout=60"))(t)
				for range 10 {
					s, err := pgkv.DialFirst(t.Context(), a)
					if err == nil {
						s.Close()
					}
					refused, is := errors.AsType[*pgkv.RefusedError](err)
					if mode == "session" && err != nil || mode != "session" && (!is || !strings.HasPrefix(refused.Reason, "PgBouncer in "+mode+" mode")) {
						t.Fatalf("DialFirst() = %v", err)
					}
				}
				for url, want := range map[string]string{
					"postgres://app:wrong@" + address + "/postgres":                 "the password is wrong, or the user is unknown (08P01)",
					"postgres://app@" + address + "/postgres":                       "it asks for a password, and none was given",
					"postgres://app:right@" + address + "/gone":                     "the database does not exist (",
					"postgres://app:right@" + address + "/postgres?work_mem=4MB":    "does not accept the parameter work_mem of the URL (08P01)",
					"postgres://app:right@" + address + "/postgres?options=-cx%3D1": "does not accept the parameter options of the URL (08P01)",
				} {
					if away := awayReason(t, url+""); !strings.Contains(away.Reason, want) || !away.Lasts {
						t.Errorf("%s: %q, lasts: %t, want %q", url, away.Reason, away.Lasts, want)
					}
				}
			})
		}
	}
}

// useShortly is another user of a pooler.
func useShortly(ctx context.Context, url string) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for range 20 {
		_, _ = conn.Exec(ctx, "select pg_sleep(0.002)", pgx.QueryExecModeSimpleProtocol)
	}
}
