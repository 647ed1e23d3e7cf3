package store

import (
	"context"

	"tollhouse/store/kv"
	"tollhouse/store/secret"
)

// ImportTokens imports one authorization, as an import of lines does with several in one Update.
// It returns what became of it.
func (s *Store) ImportTokens(ctx context.Context, given ImportedTokens) (outcome string, err error) {
	id := secret.NewID(s.random)
	var o tokensOutcome
	err = s.db.Update(ctx, func(tx kv.Txn) (err error) {
		o, err = s.importTokens(tx, given, id)
		return err
	})
	switch {
	case err != nil:
		return "", err
	case o.unchanged:
		return "unchanged", nil
	case o.expired:
		return "expired", nil
	case o.cut:
		return "cut", nil
	}
	return "created", nil
}

// Refusals of ImportTokens.
var (
	ErrUnknownClient = errUnknownClient
	ErrUnknownUser   = errUnknownUser
	ErrTextTaken     = errTextTaken
)
