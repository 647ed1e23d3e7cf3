package store

import (
	"context"

	"tollhouse/store/kv"
	"tollhouse/store/moving"
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

// LiveTokens returns the lines of tokens in an export.
func (s *Store) LiveTokens(ctx context.Context, account string) (lines []*moving.Token, err error) {
	x, err := s.NewExport(ctx, ExportSpec{Nouns: []string{"token"}, Account: account, Secrets: true})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	for isEnd := false; err == nil && !isEnd; {
		err = x.held.View(ctx, func(r kv.Reader) error {
			var page []moving.Record
			page, isEnd, err = x.stages[0](r)
			for _, line := range page {
				lines = append(lines, line.(*moving.Token))
			}
			return err
		})
	}
	return lines, err
}

// ImportLine imports a line of tokens.
func (s *Store) ImportLine(ctx context.Context, line *moving.Token) (outcome string, err error) {
	given, err := readTokens(line)
	if err != nil {
		return "", err
	}
	return s.ImportTokens(ctx, given)
}

// TokensAtOnce makes the export one of tokens alone, of which n authorizations are in memory.
func (x *Export) TokensAtOnce(n int) {
	t := newTokenExport(x.s.Now(), ExportSpec{Secrets: true})
	t.max = n
	t.begin()
	x.stages = []exportStage{t.next}
}
