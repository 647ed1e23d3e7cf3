package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"

	"tollhouse/store"
	"tollhouse/store/moving"
	"tollhouse/store/record"
)

// importLine makes a record as an import does, for a member that only an import knows. Everything is
// allowed that an import may be allowed, and accounts are made as needed.
func (w *seeder) importLine(ctx context.Context, line int, r moving.Record, account ...string) error {
	for _, id := range account {
		if id == "" {
			continue
		}
		if _, err := w.to.CreateAccount(ctx, id, ""); err != nil && !errors.Is(err, record.ErrExists) {
			return storeError(line, moving.NounOf(r), id, err)
		}
	}
	text, err := moving.Append(nil, r)
	if err != nil {
		return err
	}
	noun, bad := moving.NounOf(r), (*moving.Error)(nil)
	im := w.to.NewImport(ctx, store.ImportOptions{Allow: store.ImportAllows(), ParseURL: w.rules.ParseURL, Report: func(r store.ImportReport) { bad = r.Refused }})
	err = im.Add(ctx, bytes.TrimSpace(text), 0)
	if err == nil {
		err = im.Flush(ctx)
	}
	switch sum := im.Summary(); {
	case err != nil:
		return err
	case bad != nil:
		return lineError(line, cmp.Or(bad.Param, noun), cmp.Or(bad.Hint, "correct the "+noun), "%s: %s", cmp.Or(bad.Param, noun), bad.Reason)
	case sum.Unchanged > 0:
		return &seedError{line: line, param: noun, hint: "remove the duplicate", err: fmt.Errorf("the %s already exists", noun), exists: true}
	case sum.Expired > 0:
		return lineError(line, noun, "give a later expires_at", "the tokens have ended, or their client, user or account is disabled")
	}
	w.made[line] = map[string]any{noun: r}
	return nil
}

// tokenToImport returns a token line with what a seed file may leave out or say in seconds from now.
func (w *seeder) tokenToImport(t moving.Token) *moving.Token {
	t.ClientID, t.Username = cmp.Or(t.ClientID, w.demo.ClientID), cmp.Or(t.Username, w.demo.Username)
	for _, of := range []struct{ in, at **int64 }{{&t.ExpiresIn, &t.ExpiresAt}, {&t.RefreshExpiresIn, &t.RefreshExpiresAt}} {
		if *of.in != nil {
			at := w.to.Now().Unix() + **of.in
			*of.in, *of.at = nil, &at
		}
	}
	return &t
}
