package store

import (
	"context"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// The text of a token that an import brought, or that a test chose, does not show its kind. Such a
// text is looked up while a family that began with one may be live. Before and afterwards
// it is refused as any other text that is not ours.

// metaImported is the name of the record of when the last of these families ends. It is an upper
// bound: one that is revoked sooner, perhaps with all of its user, client or account, still counts.
const metaImported = "imported tokens"

// ParseToken is [secret.Parse] that also takes the text of an imported token, or in a store with
// fixtures any, if the store may have one. Errors: ErrNotFound for text that is no token, the engine's.
func (s *Store) ParseToken(ctx context.Context, kind secret.Kind, text string) (secret.Token, error) {
	if token, ok := secret.Parse(kind, text); ok {
		return token, nil
	}
	token, ok := s.parseImported(text)
	if !ok {
		return secret.Token{}, record.ErrNotFound
	}
	err := s.db.View(ctx, func(r kv.Reader) error {
		if has, err := s.hasImported(r); err != nil || has {
			return err
		}
		return record.ErrNotFound
	})
	return token, err
}

func (s *Store) parseImported(text string) (secret.Token, bool) {
	if s.fixtures {
		return secret.Fixture(text)
	}
	return secret.ParseImported(text)
}

// hasImported reports whether an imported token may be in use.
func (s *Store) hasImported(r kv.Reader) (bool, error) {
	v, err := r.Get(record.MetaKey(metaImported))
	if err != nil {
		return false, record.GoneIsNil(err)
	}
	until, err := decodeLatest(v)
	return s.Now().Before(until), err
}

// kindOf returns the kind of a token, one of the kinds. That of an imported one is looked up.
// Errors: ErrNotFound for text that is no token.
func (s *Store) kindOf(ctx context.Context, text string, kinds ...secret.Kind) (kind secret.Kind, token secret.Token, err error) {
	if token, ok := s.parseImported(text); ok {
		err = s.db.View(ctx, func(r kv.Reader) error {
			has, err := s.hasImported(r)
			if err == nil && has {
				kind, err = usedAs(r, token.Hash())
			}
			return err
		})
		if err != nil || kind != "" {
			return kind, token, err
		}
	}
	for _, kind := range kinds {
		if token, ok := secret.Parse(kind, text); ok {
			return kind, token, nil
		}
	}
	return "", secret.Token{}, record.ErrNotFound
}

// usedAs returns the kind of the token with that hash, "" if there is none.
func usedAs(r kv.Reader, h secret.Hash) (secret.Kind, error) {
	_, err := r.Get(record.AccessTokenKey(h))
	if err == nil {
		return secret.AccessToken, nil
	}
	if record.IsAbsent(err) {
		_, err = r.Get(record.RefreshTokenKey(h))
	}
	if err == nil {
		return secret.RefreshToken, nil
	}
	return "", record.GoneIsNil(err)
}

// tokenText is what is kept of a token's text for longer than the token: an import that brings it
// again must not make it live again. It is kept of imported tokens, and of access tokens that
// were revoked alone, which an export may have.
type tokenText struct {
	family secret.ID
	party  secret.Hash // the client and the user; zero if the family was deleted
}

const (
	tokenTextRecord = 1
	// tokenTextKept is how long that of an imported token is kept at least. It is kept as long as the
	// token would have lived in the other system, which may be for ever.
	tokenTextKept = 365 * 24 * time.Hour
)

// keepText stores within tx that a token of the family has that text, and that such texts are to be
// looked up.
func keepText(tx kv.Txn, f family, t ImportedToken, now time.Time) error {
	ends := t.ExpiresAt
	if !ends.IsZero() {
		ends = later(ends, now.Add(tokenTextKept))
	}
	if err := raiseLatest(tx, record.MetaKey(metaImported), f.expiresAt); err != nil {
		return err
	}
	return tx.Set(record.ImportedTokenKey(t.Hash), encodeTokenText(tokenText{f.id, f.party()}), ends)
}

// keepRevoked keeps within tx the text of an access token that is to be deleted.
func keepRevoked(tx kv.Txn, t accessToken) error {
	_, err := tx.Get(record.ImportedTokenKey(t.hash))
	if !record.IsAbsent(err) { // it was imported, and is kept for longer
		return err
	}
	return tx.Set(record.ImportedTokenKey(t.hash), encodeTokenText(tokenText{t.family, t.party()}), t.expiresAt)
}

// readText returns what is known of a text: of a token that was imported or issued, live or not.
// Errors: ErrNotFound.
func readText(r kv.Reader, h secret.Hash) (tokenText, error) {
	t, err := record.Read(r, record.ImportedTokenKey(h), struct{}{}, decodeTokenText)
	if !record.IsAbsent(err) {
		return t, err
	}
	kind, err := usedAs(r, h)
	if err == nil && kind == "" {
		err = record.ErrNotFound
	}
	if err != nil {
		return tokenText{}, err
	}
	if t.family, err = familyOf(r, kind, h); err != nil {
		return tokenText{}, err
	}
	f, err := readFamily(r, t.family)
	if err == nil {
		t.party = f.party()
	}
	return t, record.GoneIsNil(err)
}

// party identifies the client and the user of a lineage together, without naming them.
func (l lineage) party() secret.Hash { return secret.HashOf(l.client + "\x00" + string(l.user[:])) }

func encodeTokenText(t tokenText) []byte {
	return record.NewEncoder(tokenTextRecord).ID(t.family).Hash(t.party).B
}

func decodeTokenText(_ struct{}, v []byte) (tokenText, error) {
	d := record.NewDecoder("text of an imported token", tokenTextRecord, v)
	t := tokenText{d.ID(), d.Hash()}
	return t, d.Done()
}
