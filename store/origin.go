package store

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// origins caches the origins from which public clients in browsers may call the token
// endpoint. Finding them reads all clients, so they are kept until those of a client change: the
// store counts the changes, whichever process makes them.
type origins struct {
	mu    sync.Mutex
	found map[string]struct{}
	seen  uint64 // changes of clients before they were found
}

const (
	originsMax  = 1 << 14 // cached; further origins are not allowed
	originsPage = 500     // clients read in one transaction
)

const (
	metaClients   = "clients" // name of the record of clientCounts
	clientsRecord = 1
)

// clientCounts counts the changes that may change the origins, and how many clients there are.
type clientCounts struct{ changes, clients uint64 }

// countClientChange counts a change within tx, after which added more clients exist, and returns
// how many there are then.
func countClientChange(tx kv.Txn, added int) (clients uint64, err error) {
	n, err := readClientCounts(tx)
	if err != nil {
		return 0, err
	}
	n.changes++
	n.clients += uint64(added)
	return n.clients, tx.Set(record.MetaKey(metaClients), record.NewEncoder(clientsRecord).Uint(n.changes).Uint(n.clients).B, time.Time{})
}

func readClientCounts(r kv.Reader) (clientCounts, error) {
	v, err := r.Get(record.MetaKey(metaClients))
	if err != nil {
		return clientCounts{}, record.GoneIsNil(err)
	}
	return decodeClientCounts(v)
}

func decodeClientCounts(v []byte) (clientCounts, error) {
	d := record.NewDecoder("count of clients", clientsRecord, v)
	n := clientCounts{changes: d.Uint(), clients: d.Uint()}
	return n, d.Done()
}

// AllowsOrigin reports whether origin (RFC 6454) is that of a redirect URI of an
// enabled public client. As in redirect URIs, an http loopback address matches any
// port.
func (s *Store) AllowsOrigin(ctx context.Context, origin string) (bool, error) {
	if len(origin) > RedirectURISizeMax {
		return false, nil
	}
	canonical, ok := originOf(origin)
	if _, path, isLoopback := cutLoopbackPort(origin); !ok || isLoopback && path != "" || !isLoopback && canonical != origin {
		return false, nil // no browser sends that
	}
	var now clientCounts
	err := s.db.View(ctx, func(r kv.Reader) (err error) {
		now, err = readClientCounts(r)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("allows origin: %w", err)
	}
	o := &s.origins
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.found == nil || o.seen != now.changes {
		found, err := s.walkOrigins(ctx)
		if err != nil {
			return false, fmt.Errorf("allows origin: %w", err)
		}
		o.found, o.seen = found, now.changes
	}
	_, allowed := o.found[canonical]
	return allowed, nil
}

func (s *Store) walkOrigins(ctx context.Context) (map[string]struct{}, error) {
	found, after := map[string]struct{}{}, ""
	for {
		clients, err := s.ListClients(ctx, after, originsPage)
		if err != nil {
			return nil, err
		}
		for _, c := range clients {
			after = c.ID
			for _, origin := range c.origins() {
				if len(found) < originsMax {
					found[origin] = struct{}{}
				}
			}
		}
		if len(clients) < originsPage {
			return found, nil
		}
	}
}

// origins are those from which browsers may act for the client.
func (c Client) origins() (list []string) {
	if !c.Public || !c.DisabledAt.IsZero() {
		return nil
	}
	for _, uri := range c.RedirectURIs {
		if origin, ok := originOf(uri); ok {
			list = append(list, origin)
		}
	}
	return list
}

// originOf returns the origin of a web address as browsers write it, without the port
// if redirect URIs ignore it. A private-use scheme has none.
func originOf(uri string) (string, bool) {
	if loopback, _, ok := cutLoopbackPort(uri); ok {
		return loopback, true
	}
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", false
	}
	port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]
	return u.Scheme + "://" + strings.TrimSuffix(strings.ToLower(u.Host), port), true
}
