package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/handlers"
	"tollhouse/store"
)

// laterWork is done once the server answers. It closes planted when the events
// stand, and returns when the users do.
type laterWork func(ctx context.Context, planted chan<- struct{}) error

// plant makes what dev begins with: what a seed file says, or else the demo. It
// returns what there is to show, and what is still to be done once the server
// answers: the demo's history takes as long as all before it. Nobody is let in who
// could tell (lateListener).
func (k *keep) plant(ctx context.Context, f devFlags, from *seed) (shown *handlers.Demo, later laterWork, err error) {
	if from != nil {
		shown, err = from.plant(ctx, k.store)
		later = nothingLater
	} else {
		shown, err = demo(), seedDemo(ctx, k.store)
		later = k.demoLater(f.clock.Time)
	}
	if err == nil && (f.foretold || f.autoLogin != "") {
		// Whoever comes first must find the user, or draw the next id, as always.
		err = later(ctx, make(chan struct{}))
		later = nothingLater
	}
	if err != nil {
		return nil, nil, err
	}
	shown.AutoLogin, shown.AutoConsent = f.autoLogin, f.autoConsent
	return shown, later, k.checkAutoLogin(ctx, f.autoLogin, shown.Username)
}

func nothingLater(_ context.Context, planted chan<- struct{}) error {
	close(planted)
	return nil
}

// demoLater makes the demo's history up to begin, exactly, so that a given clock
// gives the same events every time; and then its user.
func (k *keep) demoLater(begin time.Time) laterWork {
	if begin.IsZero() {
		begin = k.store.Now()
	}
	return func(ctx context.Context, planted chan<- struct{}) error {
		err := seedDemoHistory(ctx, k.store, begin)
		close(planted)
		return errors.Join(err, seedDemoUser(ctx, k.store))
	}
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
