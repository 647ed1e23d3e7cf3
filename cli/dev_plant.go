package cli

import (
	"context"
	"errors"
	"fmt"

	"tollhouse/handlers"
	"tollhouse/store"
)

// plant makes what dev begins with: what a seed file says, or else the demo. It
// returns what there is to show, and what is still to be done once the server
// answers: hashing the demo's password takes longer than all else together.
func (k *keep) plant(ctx context.Context, f devFlags, from *seed) (shown *handlers.Demo, late func(context.Context) error, err error) {
	late = func(context.Context) error { return nil }
	if from != nil {
		shown, err = from.plant(ctx, k.store)
	} else {
		shown = demo()
		late = func(ctx context.Context) error { return seedDemoUser(ctx, k.store) }
		begin := f.clock.Time // exactly, so that a given clock gives the same events every time
		if begin.IsZero() {
			begin = k.store.Now()
		}
		err = seedDemo(ctx, k.store, begin)
	}
	if err == nil && from == nil && (f.foretold || f.autoLogin != "") {
		// Whoever comes first must find the user, or the next id, where it is.
		err, late = late(ctx), func(context.Context) error { return nil }
	}
	if err != nil {
		return nil, nil, err
	}
	shown.AutoLogin, shown.AutoConsent = f.autoLogin, f.autoConsent
	return shown, late, k.checkAutoLogin(ctx, f.autoLogin, shown.Username)
}

// checkAutoLogin refuses to begin with a user to sign in as who is not there.
func (k *keep) checkAutoLogin(ctx context.Context, name, known string) error {
	if name == "" {
		return nil
	}
	_, err := k.store.FindUser(ctx, name)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	hint := "give the user a line in --seed-file"
	if known != "" {
		hint = fmt.Sprintf("--auto-login %s is one that there is; others need a line in --seed-file", known)
	}
	return usage(hint, "--auto-login %s: there is no such user", name)
}
