package database

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/kv/pgkv"
)

// Agreed are the settings that all servers on one database have in common: a token that
// one of them issued must be the same to all. Commands take them from the database. The
// first server writes them there, and tollhouse config set changes them; servers that run
// take them from there too.
type Agreed struct {
	PublicURL           string // "" for servers on loopback
	Lifetimes           store.Lifetimes
	Retain, AuditRetain time.Duration
	Feed                time.Duration
	CardGuard           eventlog.CardGuard
	OpenKinds           bool
	SecondFactor        store.SecondFactor
}

// agreedSetting is one of them, by the name of its flag, which is its name in the site too.
type agreedSetting struct {
	name string
	text string
	read func(text string) error
}

// settings are in the order in which differences are reported.
func (a *Agreed) settings() []agreedSetting {
	list := []agreedSetting{{"public-url", a.PublicURL, func(text string) error { a.PublicURL = text; return nil }}}
	for _, d := range []struct {
		name  string
		value *time.Duration
	}{
		{"access-ttl", &a.Lifetimes.AccessToken}, {"refresh-ttl", &a.Lifetimes.RefreshToken}, {"code-ttl", &a.Lifetimes.Code},
		{"session-idle", &a.Lifetimes.SessionIdle}, {"refresh-grace", &a.Lifetimes.RefreshGrace}, {"retain", &a.Retain}, {"audit-retain", &a.AuditRetain}, {"feed", &a.Feed},
	} {
		list = append(list, agreedSetting{d.name, (*term.Duration)(d.value).String(), (*term.Duration)(d.value).Set})
	}
	list = append(list, agreedSetting{"card-guard", string(cmp.Or(a.CardGuard, eventlog.CardGuardRefuse)), func(text string) (err error) {
		a.CardGuard, err = eventlog.ParseCardGuard(text)
		return err
	}})
	return append(list, agreedSetting{"open-kinds", switchText(a.OpenKinds), func(text string) error {
		a.OpenKinds = text == switchedOn
		return nil
	}}, agreedSetting{"second-factor", a.SecondFactor.String(), func(text string) (err error) {
		a.SecondFactor, err = store.ParseSecondFactor(text)
		return err
	}})
}

// Setting is one of them with its value, as its flag takes it.
type Setting struct{ Name, Value string }

// Settings returns all of them.
func (a Agreed) Settings() (list []Setting) {
	for _, s := range a.settings() {
		list = append(list, Setting{s.name, s.flagValue()})
	}
	return list
}

// flagValue returns the value as its flag takes and shows it.
func (s agreedSetting) flagValue() string {
	if s.name == "open-kinds" {
		return strconv.FormatBool(s.text == switchedOn)
	}
	return s.text
}

// Change is a setting before and after a change.
type Change struct {
	Name string `json:"name"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// ChangesFrom returns the settings that differ from before, and those that are named.
func (a Agreed) ChangesFrom(before Agreed, named func(name string) bool) (list []Change) {
	old := before.Settings()
	for i, s := range a.Settings() {
		if s != old[i] || named(s.Name) {
			list = append(list, Change{s.Name, old[i].Value, s.Value})
		}
	}
	return list
}

// Policy returns what a store takes of them.
func (a Agreed) Policy() store.Policy {
	return store.Policy{Lifetimes: a.Lifetimes, SecondFactor: a.SecondFactor, CardGuard: a.CardGuard, OpenKinds: a.OpenKinds}
}

// switchedOn is the value of a flag that takes none. A flag that is not given is "".
const switchedOn = "on"

func switchText(on bool) string {
	if on {
		return switchedOn
	}
	return ""
}

// applyTo sets what a store is opened with.
func (a *Agreed) applyTo(o *datadir.Options) {
	o.Lifetimes, o.CardGuard, o.OpenKinds, o.SecondFactor = a.Lifetimes, a.CardGuard, a.OpenKinds, a.SecondFactor
}

// ReadAgreed returns the settings in a site, with the defaults for those that it lacks.
func ReadAgreed(site map[string]string) (Agreed, error) {
	return Agreed{Lifetimes: store.DefaultLifetimes()}.In(site)
}

// In returns the settings in a site, and a's own for those that it lacks: servers of an older
// release wrote it.
func (a Agreed) In(site map[string]string) (Agreed, error) {
	for _, s := range a.settings() {
		if text, has := site[s.name]; has {
			if err := s.read(text); err != nil {
				return a, term.Fail(term.ExitConfig, "use the same version of tollhouse as the servers", "cannot read the setting %s in the database: %w", s.name, err)
			}
		}
	}
	return a, nil
}

// URL returns the public URL, or one for a command's own requests.
func (a *Agreed) URL() *url.URL {
	if u, err := url.Parse(a.PublicURL); err == nil && a.PublicURL != "" {
		return u
	}
	return &url.URL{Scheme: "http", Host: "127.0.0.1"}
}

// differ returns the failure for the first setting that differs from that of others, who are
// on the database.
func (a *Agreed) differ(site map[string]string, others string) error {
	for _, s := range a.settings() {
		// A server of an older release may lack a setting.
		if theirs, has := site[s.name]; has && theirs != s.text {
			cure := fmt.Sprintf("give --%s %s here", s.name, term.ShellQuote(theirs))
			switch theirs {
			case "":
				cure = "leave --" + s.name + " out here"
			case switchedOn:
				cure = "give --" + s.name + " here"
			}
			return term.Fail(term.ExitConfig, cure+"; to change it on all servers: tollhouse config set --"+s.name+"="+term.ShellQuote(s.flagValue()),
				"--%s is %s here, but %s %s", s.name, cmp.Or(s.text, "not set"), cmp.Or(theirs, "not set"), others)
		}
	}
	return nil
}

// Rules are what a server must satisfy to join the others.
type Rules struct {
	Key         string // fingerprint of its server key
	NewKey      bool   // the key replaces the former one
	AcceptClock bool
	Agreed      Agreed
}

// judge decides whether a server may join, and what it sets in the site.
func (r *Rules) judge(f pgkv.Found) (map[string]string, error) {
	if f.First && !r.AcceptClock {
		if err := clockFault(f.Clock); err != nil {
			return nil, err
		}
	}
	theirs := f.Site[pgkv.SiteKey]
	switch {
	case theirs == "" || theirs == r.Key:
	case !f.Alone && r.NewKey:
		return nil, term.Fail(term.ExitConfig, "stop all other servers first", "--new-key cannot replace the server key (fingerprint %s) while other servers run with it", theirs)
	case !r.NewKey:
		return nil, term.Fail(term.ExitConfig, "copy their key file to this machine; if it is lost, stop all servers and start the first one with --new-key",
			"the server key has the fingerprint %s, but the servers on this database have %s", r.Key, theirs)
	}
	switch {
	case !f.First: // it takes the settings from the site, whatever its flags say
		return nil, nil
	case !f.Alone:
		return nil, r.Agreed.differ(f.Site, "on the database's running servers")
	case f.Site[pgkv.SiteSettled] != "":
		if err := r.Agreed.differ(f.Site, "by tollhouse config set"); err != nil {
			return nil, err
		}
	}
	set := map[string]string{pgkv.SiteKey: r.Key}
	for _, s := range r.Agreed.settings() {
		set[s.name] = s.text
	}
	return set, nil
}

// The limits of clocks. Doctor and /readyz report smaller differences than a start refuses.
const (
	ClockWarn   = 2 * time.Second
	clockRefuse = 60 * time.Second
	clockAhead  = 400 * 24 * time.Hour
)

// clockFault compares this machine's clock with the database's, and that with the last
// write.
func clockFault(c pgkv.Clock) error {
	const accept = "correct the clocks and start again; if they are right, add --accept-clock"
	switch behind := c.LastWrite.Sub(c.Now); {
	case c.Offset.Abs() > clockRefuse:
		return term.Fail(term.ExitBusy, accept, "the clock of this machine is %s %s the database's", term.ShowAge(c.Offset.Abs()), aheadOrBehind(c.Offset))
	case c.LastWrite.IsZero():
	case behind > clockRefuse:
		return term.Fail(term.ExitBusy, accept, "the database's clock says %s, but its last write was %s later", c.Now.UTC().Format(time.RFC3339), term.ShowAge(behind))
	case -behind > clockAhead:
		return term.Fail(term.ExitBusy, accept, "the database's clock says %s, %d days after its last write", c.Now.UTC().Format(time.RFC3339), int(-behind/(24*time.Hour)))
	}
	return nil
}

func aheadOrBehind(offset time.Duration) string {
	if offset < 0 {
		return "behind"
	}
	return "ahead of"
}

// ClockOffError means that the machine's clock differs from the database's too much to
// serve.
type ClockOffError struct{ Offset time.Duration }

func (e *ClockOffError) Error() string {
	return fmt.Sprintf("the clock of this machine is %s %s the database's", e.Offset.Abs().Round(time.Millisecond), aheadOrBehind(e.Offset))
}

// Public is the reason that everybody may read.
func (e *ClockOffError) Public() string {
	return "The clock of this server differs from the database's."
}

// CheckOffset returns a *ClockOffError if the clocks differ by more than [ClockWarn].
func CheckOffset(c pgkv.Clock) error {
	if c.Offset.Abs() > ClockWarn {
		return &ClockOffError{Offset: c.Offset}
	}
	return nil
}

// unreachable is the failure when no host of the database answers as it should.
func unreachable(a *pgkv.Address, err error) error {
	code, reason, next := term.ExitUnreachable, err.Error(), "check that the database runs, and that this machine and user may connect to it"
	if away, is := errors.AsType[*pgkv.AwayError](err); is {
		reason, next = away.Reason, cmp.Or(away.Remedy, next)
		if away.Lasts {
			code = term.ExitConfig
		}
	}
	return term.Fail(code, next, "cannot use the database on %s: %s", joined(a.Hosts()), reason)
}
