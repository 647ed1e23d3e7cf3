package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// Secrets are sealed with the server key under the id of their endpoint: a backup or a
// stolen store reveals none, and they cannot be swapped.

func sealLabel(id string) string { return "webhook/" + id }

func (w *Webhooks) seal(id string, token secret.Token) Secret {
	return Secret{CreatedAt: w.Now(), sealed: w.Key.Seal(sealLabel(id), []byte(token.Reveal()))}
}

// live returns the secrets that have not expired.
func live(secrets []Secret, now time.Time) []Secret {
	return slices.DeleteFunc(slices.Clone(secrets), func(s Secret) bool { return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt) })
}

// Open returns the live secrets of an endpoint, newest first, and false if one was
// sealed with another server key.
func (w *Webhooks) Open(e *Endpoint) (tokens []secret.Token, ok bool) {
	for _, s := range live(e.Secrets, w.Now()) {
		text, opened := w.Key.Open(sealLabel(e.ID), s.sealed)
		token, valid := secret.ParseWebhookSecret(string(text))
		if !opened || !valid {
			return nil, false
		}
		tokens = append(tokens, token)
	}
	return tokens, len(tokens) > 0
}

// RotateSecret gives an endpoint a new secret, its own or the given one, and binds it to the
// caller. The older ones stay valid for overlap; 0 drops them immediately. Secrets that cannot
// be opened are dropped. Errors: record.ErrNotFound, *record.InvalidError, *SecretsError, and
// record.ErrDisabled when the caller's authorization has ended in the meantime.
func (w *Webhooks) RotateSecret(ctx context.Context, by By, id string, overlap time.Duration, token secret.Token) (Endpoint, secret.Token, error) {
	if overlap < 0 || overlap > OverlapMax {
		return Endpoint{}, secret.Token{}, record.Invalid("overlap", "give 0 to 604800 seconds", "overlap must be from 0 to 7 days")
	}
	if token.IsZero() {
		token = secret.NewWebhookSecret(w.Random)
	}
	sealed := w.seal(id, token)
	e, err := w.change(ctx, by, id, func(tx kv.Txn, e *Endpoint) (string, error) {
		now := w.Now()
		older := live(e.Secrets, now)
		if _, ok := w.Open(e); !ok || overlap == 0 {
			older = nil
		}
		if len(older) >= SecretsMax {
			next := slices.MinFunc(older[1:], func(a, b Secret) int { return a.ExpiresAt.Compare(b.ExpiresAt) })
			return "", &SecretsError{Ends: next.ExpiresAt}
		}
		for i := range older {
			if ends := now.Add(overlap); older[i].ExpiresAt.IsZero() || ends.Before(older[i].ExpiresAt) {
				older[i].ExpiresAt = ends
			}
		}
		e.Secrets = append([]Secret{sealed}, older...)
		e.renew(false)
		return "secret_rotated", w.bind(tx, e, by)
	})
	if err != nil {
		return Endpoint{}, secret.Token{}, fmt.Errorf("rotate webhook secret: %w", err)
	}
	return e, token, nil
}
