package server

import (
	"net/netip"
	"net/url"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/handlers/desk"
	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/eventlog"
)

// serverFlags are the settings that dev and serve have in common.
type serverFlags struct {
	listen         []string
	publicURL      string
	trustedProxies []string
	logFormat      string
	cardGuard      string
	openKinds      bool
	secondFactor   string
	instanceName   string
	logo           string

	accessTTL, refreshTTL, codeTTL, sessionIdle, refreshGrace term.Duration

	auditRetain term.Duration
	feed        term.Duration
	desk        deskFlags
	platform    platformFlags
	webhooks    webhookFlags
}

func (f *serverFlags) add(flags *pflag.FlagSet, listen string) {
	d := store.DefaultLifetimes()
	f.accessTTL, f.refreshTTL, f.codeTTL = term.Duration(d.AccessToken), term.Duration(d.RefreshToken), term.Duration(d.Code)
	f.sessionIdle, f.refreshGrace = term.Duration(d.SessionIdle), term.Duration(d.RefreshGrace)
	flags.StringArrayVar(&f.listen, "listen", []string{listen}, "`address` to listen on; may be given several times")
	flags.StringVar(&f.publicURL, "public-url", "", "`URL` by which clients and users reach the server: the issuer and the base of all links")
	flags.StringArrayVar(&f.trustedProxies, "trusted-proxies", nil, "`networks` of proxies whose X-Forwarded-For is trusted, separated by commas")
	flags.StringVar(&f.instanceName, "instance-name", instanceNameDefault, "the `name` of the server in its pages and their titles, at most 60 characters")
	flags.StringVar(&f.logo, "logo", "", "PNG `file` that replaces the tollhouse logo and icon, at most 64 KiB and 1,024 by 1,024 pixels")
	flags.Var(&f.accessTTL, "access-ttl", "lifetime of an access token")
	flags.Var(&f.refreshTTL, "refresh-ttl", "lifetime of a refresh token")
	flags.Var(&f.codeTTL, "code-ttl", "lifetime of an authorization code, at most 10m")
	flags.Var(&f.sessionIdle, "session-idle", "how long a sign-in lasts after its last use")
	flags.Var(&f.refreshGrace, "refresh-grace", "how long a retried refresh returns the same tokens")
	flags.StringVar(&f.secondFactor, "second-factor", store.FactorOffered.String(), "who needs a second factor to sign in: offered (users who have one), operators or all (they must have one too), or off (nobody)")
	f.auditRetain = term.Duration(auditRetainDefault)
	flags.Var(&f.auditRetain, "audit-retain", "how long to keep lines of the audit record")
	flags.StringVar(&f.logFormat, "log-format", "auto", "format of the log: text, json, or auto (text on a terminal, json elsewhere)")
	flags.Var(&f.feed, "feed", "keep one list of the events of all accounts, for this long: 1h to 400d; 0 keeps none")
	f.desk.add(flags)
	f.platform.add(flags)
	flags.StringVar(&f.cardGuard, "card-guard", "refuse", "card numbers and secrets in events: refuse, warn, or off to allow them")
	flags.BoolVar(&f.openKinds, "open-kinds", false, "allow any fields in customers, accounts, transactions and invoices")
}

// serverConfig holds the parsed and checked flags.
type serverConfig struct {
	listen    []string
	publicURL *url.URL // nil: the first listener
	proxies   []netip.Prefix
	lifetimes store.Lifetimes
	cardGuard eventlog.CardGuard
	desk      *desk.Config // nil without the operators' pages
	platform  *web.Platform
	settings  []admin.Setting

	auditRetain time.Duration
	feed        time.Duration // 0 is off
	webhooks    webhookConfig
	alarms      alarmConfig // of serve

	secondFactor store.SecondFactor

	instanceName string
	logo         []byte // a PNG, or nil
}

func (f *serverFlags) parse(flags *pflag.FlagSet) (c serverConfig, err error) {
	c.listen = term.SplitLists(f.listen)
	if len(c.listen) == 0 {
		return c, term.Usage("give an address such as 127.0.0.1:8080", "--listen has no address")
	}
	for _, addr := range c.listen {
		if err := checkAddress("listen", addr); err != nil {
			return c, err
		}
	}
	if f.publicURL != "" {
		if c.publicURL, err = ParsePublicURL(f.publicURL); err != nil {
			return c, err
		}
	}
	if c.proxies, err = parseProxies(f.trustedProxies); err != nil {
		return c, err
	}
	if c.cardGuard, err = eventlog.ParseCardGuard(f.cardGuard); err != nil {
		return c, term.Usage("give refuse, warn or off", "--card-guard %q is not valid", f.cardGuard)
	}
	if c.secondFactor, err = store.ParseSecondFactor(f.secondFactor); err != nil {
		return c, term.Usage("give off, offered, operators or all", "--second-factor %q is not valid", f.secondFactor)
	}
	for _, name := range []string{"access-ttl", "refresh-ttl", "code-ttl", "session-idle"} {
		if ttl := flags.Lookup(name).Value.(*term.Duration); time.Duration(*ttl) < time.Second {
			return c, term.Usage("give one second or more", "--%s %s is too short", name, ttl)
		}
	}
	if c.auditRetain = time.Duration(f.auditRetain); c.auditRetain < auditRetainMin {
		return c, term.Usage("give 1d or more", "--audit-retain %s is too short", &f.auditRetain)
	}
	if c.feed = time.Duration(f.feed); c.feed != 0 && (c.feed < eventlog.FeedMin || c.feed > eventlog.FeedMax) {
		return c, term.Usage("give 1h to 400d, or leave it out to keep no feed", "--feed %s is out of range", &f.feed)
	}
	if err := store.CheckInstanceName(f.instanceName); err != nil {
		return c, instanceNameError(err)
	}
	c.instanceName = f.instanceName
	if c.logo, err = readLogo(f.logo); err != nil {
		return c, err
	}
	dev := flags.Lookup("rand-seed") != nil
	confirmMin := deskConfirmMin
	if dev {
		confirmMin = time.Second
	}
	if c.desk, err = f.desk.parse(confirmMin); err != nil {
		return c, err
	}
	if c.platform, err = f.platform.parse(); err != nil {
		return c, err
	}
	if c.webhooks, err = f.webhooks.parse(dev); err != nil {
		return c, err
	}
	c.lifetimes = store.DefaultLifetimes()
	c.lifetimes.AccessToken, c.lifetimes.RefreshToken = time.Duration(f.accessTTL), time.Duration(f.refreshTTL)
	c.lifetimes.Code, c.lifetimes.SessionIdle = time.Duration(f.codeTTL), time.Duration(f.sessionIdle)
	c.lifetimes.RefreshGrace = time.Duration(f.refreshGrace)
	if !flags.Changed("refresh-grace") {
		// The default grace never exceeds the lifetime of an access token.
		c.lifetimes.RefreshGrace = min(c.lifetimes.RefreshGrace, c.lifetimes.AccessToken)
	}
	return c, nil
}

// DeriveDefaults sets the flags whose defaults depend on other flags.
func DeriveDefaults(flags *pflag.FlagSet) {
	if grace := flags.Lookup("refresh-grace"); !grace.Changed {
		ttl := grace.Value.(*term.Duration)
		*ttl = min(*ttl, *flags.Lookup("access-ttl").Value.(*term.Duration))
	}
	if flags.Lookup("tls") != nil { // dev has none
		inferMode(flags)
	}
}
