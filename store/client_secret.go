package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook"
)

// clientSecret is one valid secret. During a rotation a client has two.
type clientSecret struct {
	hash      secret.Hash
	foreign   string // the hash of another system, until the secret is used; then hash is zero
	isShort   bool   // an import took a secret that is easy to guess
	lent      bool   // a platform client made it
	createdAt time.Time
}

// isSame reports whether two secrets are one.
func (s clientSecret) isSame(other clientSecret) bool {
	return s.hash.Equal(other.hash) && s.foreign == other.foreign
}

// text returns what is kept of the secret.
func (s clientSecret) text() string { return hex.EncodeToString(s.hash[:]) + s.foreign }

// AuthenticateClient returns the client if the presented secret is its own (RFC 6749
// §2.3). A public client presents no secret. An unknown client, a wrong secret and a
// disabled client give the same error after the same time, unless the secret was imported as a hash
// that is dear to check: client ids are public. Then admit, if given, is called first, and returns who
// is charged for it, or refuses it. The first right use replaces that hash by ours. Errors:
// ErrMismatch, that of admit, ErrBusy.
func (s *Store) AuthenticateClient(ctx context.Context, id, presented string, admit func() (secret.Caller, error)) (Client, error) {
	c, err := s.findClient(ctx, id, s.decoded.decode)
	if err != nil && !errors.Is(err, record.ErrNotFound) {
		return Client{}, fmt.Errorf("authenticate client: %w", err)
	}
	known := err == nil
	isProved := c.proves(presented)
	if !isProved && presented != "" && c.DisabledAt.IsZero() && c.hasForeignSecret() {
		isRight, err := s.checkForeignSecrets(ctx, c, presented, admit)
		if err != nil {
			return Client{}, fmt.Errorf("authenticate client: %w", err)
		}
		isProved = isRight
	}
	if !known || !isProved || !c.DisabledAt.IsZero() {
		return Client{}, fmt.Errorf("authenticate client: %w", record.ErrMismatch)
	}
	if presented != "" { // of a public client anybody may say that it is the one
		s.clientAuthenticated(ctx, c)
	}
	s.recent.noteClient(c)
	return c, nil
}

// proves reports whether a secret is one of the client's, or none is presented for a public client.
func (c Client) proves(presented string) bool {
	hash := secret.HashOf(presented)
	isProved := c.Public && presented == ""
	for i := range clientSecretsMax { // constant number of comparisons
		var kept secret.Hash
		if i < len(c.secrets) {
			kept = c.secrets[i].hash
		}
		isProved = hash.Equal(kept) || isProved
	}
	return isProved
}

// isProtected reports whether only the machine changes the client.
func (c Client) isProtected() bool { return c.Introspect || c.Platform }

// mayBecome refuses to give a client more than platform clients may give it while one knows a secret.
func (c Client) mayBecome(next Client) error {
	if c.isProtected() || !next.isProtected() || !slices.ContainsFunc(c.secrets, func(s clientSecret) bool { return s.lent }) {
		return nil
	}
	field := "introspect"
	if next.Platform {
		field = "platform"
	}
	return record.Invalid(field, "give it another secret first: tollhouse client rotate-secret --revoke-tokens CLIENT", "a platform client made a secret of this client and may know it")
}

func (c Client) hasForeignSecret() bool {
	return slices.ContainsFunc(c.secrets, func(s clientSecret) bool { return s.foreign != "" })
}

// canVerifySecrets reports whether the hashes of other systems have their form.
func (c Client) canVerifySecrets() bool {
	return !slices.ContainsFunc(c.secrets, func(s clientSecret) bool {
		return s.foreign != "" && secret.CheckSecretHash(s.foreign) != nil
	})
}

// checkForeignSecrets reports whether a secret is one whose hash another system made.
func (s *Store) checkForeignSecrets(ctx context.Context, c Client, presented string, admit func() (secret.Caller, error)) (isRight bool, err error) {
	var caller secret.Caller
	if admit != nil {
		caller, err = admit()
	}
	for _, kept := range c.secrets {
		if err != nil || isRight {
			break
		}
		if kept.foreign == "" {
			continue
		}
		var v secret.Verdict
		v, err = s.hasher.Verify(ctx, caller, kept.foreign, presented)
		if isRight = err == nil && v.Match; isRight && v.Renew {
			s.renewClientSecret(ctx, c.ID, kept.foreign, presented)
		}
	}
	return isRight, err
}

// renewClientSecret replaces the hash of another system by ours, of a secret just proved right. A
// failure does not refuse the client; the next use tries again.
func (s *Store) renewClientSecret(ctx context.Context, id, foreign, presented string) {
	err := record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error {
		c, err := readClient(tx, id)
		at := slices.IndexFunc(c.secrets, func(s clientSecret) bool { return s.foreign == foreign })
		if err != nil || at < 0 {
			return record.GoneIsNil(err)
		}
		c.secrets[at].hash, c.secrets[at].foreign = secret.HashOf(presented), ""
		c.importedRevision = 0 // it was used, so that no import replaces it
		return writeClient(tx, c)
	})
	if err != nil {
		s.log.Warn("hash of a client secret not renewed", "client_id", id, "err", err)
	}
}

// Secrets returns how many secrets of the client are valid.
func (c Client) Secrets() int { return len(c.secrets) }

// SecretMadeAt returns when the newest secret of the client was made; zero without one.
func (c Client) SecretMadeAt() time.Time {
	if len(c.secrets) == 0 {
		return time.Time{}
	}
	return c.secrets[0].createdAt
}

// HasShortSecret reports whether the client has a secret that an import took although it is easy to
// guess.
func (c Client) HasShortSecret() bool {
	return slices.ContainsFunc(c.secrets, func(s clientSecret) bool { return s.isShort })
}

// RotateClientSecret gives a client a new secret, which cannot be read again. The
// previous secret stays valid, so that deployments can move one by one; an older one is
// dropped. With revoke, the previous secret and all codes and tokens of the client become
// invalid immediately, and its webhook endpoints are disabled.
// Errors: ErrNotFound, *InvalidError for a public client, those of the guards.
func (s *Store) RotateClientSecret(ctx context.Context, id string, revoke bool, guards ...Guard) (Client, secret.Token, error) {
	sec := secret.New(s.random, secret.ClientSecret)
	reason := "client secret rotated"
	if revoke {
		reason = "client secret and tokens revoked"
	}
	c, err := s.endClient(ctx, id, reason, guards, func(_ kv.Txn, c *Client) (ends webhook.Reason, err error) {
		if c.Public {
			return "", record.Invalid("client_id", "a public client uses PKCE instead", "the client is public and has no secret")
		}
		kept := c.secrets
		if revoke {
			kept, ends = nil, webhook.AuthorizationEnded
			c.Generation++
		}
		c.secrets = append([]clientSecret{{hash: sec.Hash(), createdAt: s.Now(), lent: isPlatforms(ctx)}}, kept...)
		c.secrets = c.secrets[:min(len(c.secrets), clientSecretsMax)]
		return ends, nil
	})
	return c, sec, err
}
