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

// origins caches the origins from which public clients in browsers may call the token
// endpoint. Finding them reads all clients. A client changed through this store is
// seen at once.
type origins struct {
	changes atomic.Uint64 // number of client changes
	mu      sync.Mutex
	found   map[string]struct{}
	at      time.Time
	seen    uint64 // changes when the scan began
}

const (
	originsMax  = 1 << 14 // cached; further origins are not allowed
	originsKept = 10 * time.Second
	originsPage = 500 // clients read in one transaction
)

// forget makes the next call scan the clients again.
func (o *origins) forget() { o.changes.Add(1) }

// AllowsOrigin reports whether origin (RFC 6454) is that of a redirect URI of an
// enabled public client. As in redirect URIs, an http loopback address matches any
// port.
func (s *Store) AllowsOrigin(ctx context.Context, origin string) (bool, error) {
	if len(origin) > redirectURISizeMax {
		return false, nil
	}
	canonical, ok := originOf(origin)
	if _, path, isLoopback := cutLoopbackPort(origin); !ok || isLoopback && path != "" || !isLoopback && canonical != origin {
		return false, nil // no browser sends that
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
