package store

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// origins are those from which public clients in browsers may call the token
// endpoint: they are found by walking all clients, so what was found is kept for
// a while. A change of a client through this store is seen at once.
type origins struct {
	changes atomic.Uint64 // of clients
	mu      sync.Mutex
	found   map[string]struct{}
	at      time.Time
	seen    uint64 // the changes when the walk began
}

const (
	originsMax  = 1 << 14 // kept in memory; the origins past them are not allowed
	originsKept = 10 * time.Second
	originsPage = 500 // clients read in one transaction
)

// forget has the clients walked again before the next answer.
func (o *origins) forget() { o.changes.Add(1) }

// AllowsOrigin reports whether a page of that origin (RFC 6454) may be a public
// client: whether it is the origin of a redirect URI that an enabled one has
// registered. As in redirect URIs, the port of an http loopback address is free.
func (s *Store) AllowsOrigin(ctx context.Context, origin string) (bool, error) {
	if len(origin) > redirectURISizeMax {
		return false, nil
	}
	canonical, ok := originOf(origin)
	if _, path, isLoopback := cutLoopbackPort(origin); !ok || isLoopback && path != "" || !isLoopback && canonical != origin {
		return false, nil // no browser writes it so
	}
	o := &s.origins
	o.mu.Lock()
	defer o.mu.Unlock()
	changes, now := o.changes.Load(), s.Now()
	if o.found == nil || o.seen != changes || !near(now, o.at, originsKept) {
		found, err := s.walkOrigins(ctx)
		if err != nil {
			return false, fmt.Errorf("allows origin: %w", err)
		}
		o.found, o.at, o.seen = found, now, changes
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
			if !c.Public || !c.DisabledAt.IsZero() {
				continue
			}
			for _, uri := range c.RedirectURIs {
				if origin, ok := originOf(uri); ok && len(found) < originsMax {
					found[origin] = struct{}{}
				}
			}
		}
		if len(clients) < originsPage {
			return found, nil
		}
	}
}

// originOf returns the origin of a web address as browsers spell it, without
// the port where redirect URIs leave it free. A private scheme has none.
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
