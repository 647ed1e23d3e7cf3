package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/secret"
)

// clientSecret is one live secret. A client has two while the old one overlaps.
type clientSecret struct {
	hash      secret.Hash
	createdAt time.Time
}

// AuthenticateClient returns the client when what it presented proves that it
// is the one (RFC 6749 §2.3). A public client presents an id and no secret.
// An unknown client, a wrong secret and a disabled client are one error, found
// in the same time. Errors: ErrMismatch.
func (s *Store) AuthenticateClient(ctx context.Context, id, presented string) (Client, error) {
	c, err := s.FindClient(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Client{}, err
	}
	known := err == nil
	hash := secret.HashOf(presented)
	proved := 0
	for i := range clientSecretsMax { // always as many comparisons
		var kept secret.Hash
		if i < len(c.secrets) {
			kept = c.secrets[i].hash
		}
		if hash.Equal(kept) {
			proved++
		}
	}
	if c.Public && presented == "" {
		proved++
	}
	if !known || proved == 0 || !c.DisabledAt.IsZero() {
		return Client{}, fmt.Errorf("authenticate client: %w", ErrMismatch)
	}
	return c, nil
}

// RotateClientSecret gives a client a new secret, returned here and never
// again. The one before stays live, so that deployments can be moved one by
// one; the one before that dies. With revoke the old one dies at once, and so
// does every code and token of the client. Errors: ErrNotFound, *InvalidError
// for a public client.
func (s *Store) RotateClientSecret(ctx context.Context, id string, revoke bool) (Client, secret.Token, error) {
	sec := secret.New(secret.ClientSecret)
	c, err := s.changeClient(ctx, id, func(c *Client) error {
		if c.Public {
			return invalid("client_id", "a public client proves itself by PKCE alone", "the client is public and has no secret")
		}
		kept := c.secrets
		if revoke {
			kept = nil
			c.Generation++
		}
		c.secrets = append([]clientSecret{{hash: sec.Hash(), createdAt: s.Now()}}, kept...)
		c.secrets = c.secrets[:min(len(c.secrets), clientSecretsMax)]
		return nil
	})
	return c, sec, err
}
