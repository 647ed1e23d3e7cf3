package pgkv_test

import (
	"errors"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"tollhouse/store/kv/pgkv"
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
	if _, err := pgkv.Join(t.Context(), quiet(newPooler(t, a), "pooled")); !errors.Is(err, pgkv.ErrPooled) {
		t.Errorf("Join() through the pooler = %v, want ErrPooled", err)
	}
	p, err := pgkv.Join(t.Context(), quiet(a, "direct"))
	if err != nil {
		t.Fatalf("Join() = %v, want nil", err)
	}
	p.Leave()
}
