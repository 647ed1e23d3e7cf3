package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/database"
	"tollhouse/handlers/admin"
)

// The servers of a database agree on some settings, which a command may change while they
// run. Each server looks for changes every two seconds and takes them: what a request asks
// for (lifetimes, rules, addresses) is read at each use, and what is stored (the retention and
// the feed) is written again.

// agreed is what the servers of a database agreed on, as this one has taken it.
type agreed struct {
	mu      sync.Mutex
	now     *database.Agreed  // nil in a server on a directory
	own     database.Agreed   // what its own flags say
	site    map[string]string // as last seen
	seen    chan struct{}     // receives after site was seen
	changed chan struct{}     // closed when now changes
}

// see keeps the values that the presence found, without making it wait.
func (a *agreed) see(site map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = make(chan struct{}, 1)
	}
	a.site = site
	select {
	case a.seen <- struct{}{}:
	default:
	}
}

// begin says what the server started with.
func (a *agreed) begin(with database.Agreed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.own, a.now, a.changed = with, &with, make(chan struct{})
}

func (a *agreed) take(now database.Agreed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = &now
	close(a.changed)
	a.changed = make(chan struct{})
}

// next returns what is in use, and what it would be with the values last seen.
func (a *agreed) next() (now, next database.Agreed, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next, err = a.now.In(a.site)
	return *a.now, next, err
}

// takeAgreed takes what a command changes, until ctx is done.
func (r *running) takeAgreed(ctx context.Context) {
	warned := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.agreed.seen:
		}
		now, next, err := r.agreed.next()
		changes := next.ChangesFrom(now, func(string) bool { return false })
		if err == nil && len(changes) > 0 {
			err = r.use(ctx, now, next)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != warned:
			warned = err.Error()
			r.log.Warn("cannot take a changed setting: tried again", "err", err)
		case err != nil: // known
		case len(changes) > 0:
			warned = ""
			for _, c := range changes {
				r.log.Info("setting changed on the database", "setting", c.Name, "old", c.Old, "new", c.New)
			}
		}
	}
}

// use makes the server use the settings, from the next request on.
func (r *running) use(ctx context.Context, now, a database.Agreed) error {
	s := r.data().Store
	if err := s.SetPolicy(a.Policy()); err != nil {
		return err
	}
	if a.PublicURL != now.PublicURL {
		if err := r.usePublicURL(a.PublicURL); err != nil {
			return err
		}
	}
	if err := errors.Join(s.Events.SetRetention(ctx, a.Retain), s.Events.SetFeed(ctx, a.Feed)); err != nil {
		return err
	}
	r.agreed.take(a)
	return nil
}

// usePublicURL changes the address of pages and links, the issuer and the certificate's host.
func (r *running) usePublicURL(text string) (err error) {
	c := r.config
	c.publicURL = nil
	if text != "" {
		if c.publicURL, err = ParsePublicURL(text); err != nil {
			return err
		}
	}
	if r.certificates != nil {
		host, err := r.hostOf(c)
		if err != nil {
			return err
		}
		r.certificates.rename(host)
	}
	r.server().Site.SetPublicURL(cmp.Or(c.publicURL, r.ownURL()))
	return nil
}

// auditRetain returns how long audit lines are kept, and what is closed when that changes.
func (r *running) auditRetain() (time.Duration, <-chan struct{}) {
	r.agreed.mu.Lock()
	defer r.agreed.mu.Unlock()
	if r.agreed.now == nil {
		return r.config.auditRetain, nil
	}
	return r.agreed.now.AuditRetain, r.agreed.changed
}

const fromDatabase = "database"

// settings returns those of the server, with what a command has changed.
func (r *running) settings() []admin.Setting {
	list := slices.Clone(r.config.settings)
	r.agreed.mu.Lock()
	defer r.agreed.mu.Unlock()
	if r.agreed.now != nil {
		Overlay(list, r.agreed.now.ChangesFrom(r.agreed.own, func(string) bool { return false }))
	}
	return list
}

// Overlay sets what the database has in place of flags.
func Overlay(list []admin.Setting, changes []database.Change) {
	for _, c := range changes {
		if i := slices.IndexFunc(list, func(s admin.Setting) bool { return s.Name == c.Name }); i >= 0 {
			list[i].Value, list[i].From = c.New, fromDatabase
		}
	}
}

// AgreedFlags are the flags of serve that the servers of a database agree on.
type AgreedFlags struct {
	flags serveFlags
	all   *pflag.FlagSet
}

// AddAgreedFlags adds them to the flags of a command, without defaults.
func AddAgreedFlags(flags *pflag.FlagSet) *AgreedFlags {
	a := &AgreedFlags{all: pflag.NewFlagSet("", pflag.ContinueOnError)}
	a.flags.addTo(a.all)
	for _, s := range (database.Agreed{}).Settings() {
		f := a.all.Lookup(s.Name)
		f.DefValue = ""
		flags.AddFlag(f)
	}
	return a
}

// Given reports whether a flag was given.
func (a *AgreedFlags) Given(name string) bool { return a.all.Lookup(name).Changed }

// Over returns the settings with those that were given in place of before's. They must be
// such that serve takes them.
func (a *AgreedFlags) Over(before database.Agreed) (database.Agreed, error) {
	for _, s := range before.Settings() {
		if !a.Given(s.Name) {
			if err := a.all.Lookup(s.Name).Value.Set(s.Value); err != nil {
				return before, err
			}
		}
	}
	config, err := a.flags.parse(a.all)
	if err == nil {
		err = errors.Join(a.flags.checkRetain(), config.lifetimes.Check())
	}
	return a.flags.agreed(config), err
}

// AnyGiven reports whether one of the flags was given.
func (a *AgreedFlags) AnyGiven() bool {
	return slices.ContainsFunc((database.Agreed{}).Settings(), func(s database.Setting) bool { return a.Given(s.Name) })
}
