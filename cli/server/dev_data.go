package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"tollhouse/cli/term"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/webhook/target"
)

// seedStore creates the initial data of dev and returns what the ready line shows: the
// seed file, or else the demo. The demo's history ends at --clock, so that the same
// clock gives the same events.
func seedStore(ctx context.Context, s *store.Store, f devFlags, from *seed, random secret.Source, rules *target.Rules) (shown *web.Demo, err error) {
	if from != nil {
		shown, err = from.apply(ctx, s, random, rules)
	} else {
		shown, err = demo(), seedDemo(ctx, s, cmp.Or(f.clock.Time, s.Now()))
	}
	if err == nil {
		err = f.sendTo(ctx, s, rules, shown)
	}
	if err != nil {
		return nil, err
	}
	shown.AutoLogin, shown.AutoConsent = f.autoLogin, f.autoConsent
	return shown, checkAutoLogin(ctx, s, f.autoLogin, shown.Username)
}

// checkAutoLogin refuses to start if the user of --auto-login does not exist.
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
