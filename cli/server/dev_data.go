package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"tollhouse/cli/term"
	"tollhouse/handlers"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// seedStore makes what dev begins with, and returns what there is to show: what a seed
// file says, or else the demo, whose history ends when the clock begins, so that a
// given clock gives the same events every time.
func seedStore(ctx context.Context, s *store.Store, f devFlags, from *seed, random secret.Source) (shown *handlers.Demo, err error) {
	if from != nil {
		shown, err = from.apply(ctx, s, random)
	} else {
		shown, err = demo(), seedDemo(ctx, s, cmp.Or(f.clock.Time, s.Now()))
	}
	if err != nil {
		return nil, err
	}
	shown.AutoLogin, shown.AutoConsent = f.autoLogin, f.autoConsent
	return shown, checkAutoLogin(ctx, s, f.autoLogin, shown.Username)
}

// checkAutoLogin refuses to begin with a user to sign in as who is not there.
func checkAutoLogin(ctx context.Context, s *store.Store, name, known string) error {
	if name == "" {
		return nil
	}
	_, err := s.FindUser(ctx, name)
	if !errors.Is(err, record.ErrNotFound) {
		return err
	}
	hint := "add the user to --seed-file"
	if known != "" {
		hint = fmt.Sprintf("use --auto-login %s, or add the user to --seed-file", known)
	}
	return term.Usage(hint, "--auto-login %s: unknown user", name)
}
