package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// clientSecret is one valid secret. During a rotation a client has two.
type clientSecret struct {
	hash      secret.Hash
	createdAt time.Time
}

// AuthenticateClient returns the client if the presented secret is its own (RFC 6749
// §2.3). A public client presents no secret. An unknown client, a wrong secret and a
// disabled client give the same error after the same time. Errors: ErrMismatch.
func (s *Store) AuthenticateClient(ctx context.Context, id, presented string) (Client, error) {
	c, err := s.findClient(ctx, id)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return Client{}, fmt.Errorf("authenticate client: %w", err)
	}
	known := err == nil
	hash := secret.HashOf(presented)
	proved := 0
	for i := range clientSecretsMax { // constant number of comparisons
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
		return Client{}, fmt.Errorf("authenticate client: %w", record.ErrMismatch)
	}
	return c, nil
}

// Secrets returns how many secrets of the client are valid.
func (c Client) Secrets() int { return len(c.secrets) }

// RotateClientSecret gives a client a new secret, which cannot be read again. The
// previous secret stays valid, so that deployments can move one by one; an older one is
// dropped. With revoke, the previous secret and all codes and tokens of the client become
// invalid immediately, and its webhook endpoints are disabled.
// Errors: ErrNotFound, *InvalidError for a public client, those of the guards.
func (s *Store) RotateClientSecret(ctx context.Context, id string, revoke bool, guards ...Guard) (Client, secret.Token, error) {
	sec := secret.New(s.random, secret.ClientSecret)
	c, err := s.endClient(ctx, id, "client secret rotated", guards, func(_ kv.Txn, c *Client) (ends webhook.Reason, err error) {
		if c.Public {
			return "", record.Invalid("client_id", "a public client uses PKCE instead", "the client is public and has no secret")
		}
		kept := c.secrets
		if revoke {
			kept, ends = nil, webhook.AuthorizationEnded
			c.Generation++
		}
		c.secrets = append([]clientSecret{{hash: sec.Hash(), createdAt: s.Now()}}, kept...)
		c.secrets = c.secrets[:min(len(c.secrets), clientSecretsMax)]
		return ends, nil
	})
	return c, sec, err
}
