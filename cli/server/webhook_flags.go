package server

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/database"
	"tollhouse/cli/term"
	"tollhouse/cli/webhooks"
	"tollhouse/store/webhook/target"
)

// webhookFlags are the settings of webhooks. None is stored.
type webhookFlags struct {
	on           string
	allow        []string
	schedule     pauses
	timeout      term.Duration
	parkAfter    term.Duration
	disableAfter term.Duration
	parallel     int
	proxy, ca    string
	proxyFile    string
}

// webhookConfig holds the parsed and checked flags.
type webhookConfig struct {
	Off          bool // endpoints are kept and nothing is sent
	Rules        *target.Rules
	Schedule     []time.Duration
	Timeout      time.Duration
	ParkAfter    time.Duration
	DisableAfter time.Duration // 0 is never
	Parallel     int
	Proxy        *url.URL       // nil is none
	Roots        *x509.CertPool // nil is the system's
}

// The limits of the settings.
const (
	pausesMax       = 20
	pauseMin        = 50 * time.Millisecond
	pauseMax        = 24 * time.Hour
	webhookTimeMin  = 100 * time.Millisecond
	webhookTimeMax  = time.Minute
	webhookAfterMin = time.Second
	parallelMax     = 10_000
)

// scheduleDefault is the table of Standard Webhooks 1.0.0: ten attempts in 75 hours.
var scheduleDefault = pauses{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

// scheduleDev is that of dev: a test does not wait for minutes.
var scheduleDev = pauses{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second}

func (f *webhookFlags) add(flags *pflag.FlagSet, dev bool) {
	f.schedule = scheduleDefault
	alsoAllowed := ""
	if dev {
		f.schedule = scheduleDev
		alsoAllowed = "; dev always allows " + strings.Join(target.DevAllowed, ", ")
	}
	f.timeout, f.parkAfter, f.disableAfter = term.Duration(15*time.Second), term.Duration(time.Hour), term.Duration(5*24*time.Hour)
	flags.StringVar(&f.on, "webhooks", "on", "deliver events to webhook endpoints: on, or off to keep them for later")
	flags.StringArrayVar(&f.allow, "webhook-allow", nil, "allow webhooks to this private `host`, address or network, including plain http; may be given several times"+alsoAllowed)
	flags.Var(&f.schedule, "webhook-schedule", "pauses between the attempts to deliver an event, separated by commas")
	flags.Var(&f.timeout, "webhook-timeout", "how long an attempt may take, from 100ms to 1m")
	flags.Var(&f.parkAfter, "webhook-park-after", "how long a refused event may block an endpoint before the next event is tried")
	flags.Var(&f.disableAfter, "webhook-disable-after", "how long an endpoint may fail before it is disabled; 0 for never")
	flags.IntVar(&f.parallel, "webhook-parallel", 64, "maximum number of webhook requests in flight")
	flags.StringVar(&f.proxy, "webhook-proxy", "", "`URL` of an http proxy for webhooks; no user or password in the URL")
	flags.StringVar(&f.proxyFile, "webhook-proxy-file", "", "`file` with the URL of the proxy, which may contain a user and a password")
	flags.StringVar(&f.ca, "webhook-ca", "", "PEM `file` with the CAs to trust for webhook endpoints (default: those of the system)")
}

func (f *webhookFlags) parse(dev bool) (c webhookConfig, err error) {
	if f.on != "on" && f.on != "off" {
		return c, term.Usage("give on or off", "--webhooks %q is not valid", f.on)
	}
	allow := f.allow
	if dev {
		allow = slices.Concat(target.DevAllowed, allow)
	}
	if c.Rules, err = ParseWebhookAllow(allow); err != nil {
		return c, err
	}
	c.Rules.Own = webhooks.OwnAddresses
	if t := time.Duration(f.timeout); t < webhookTimeMin || t > webhookTimeMax {
		return c, term.Usage("give 100ms to 1m", "--webhook-timeout %s is out of range", &f.timeout)
	}
	if time.Duration(f.parkAfter) < webhookAfterMin {
		return c, term.Usage("give one second or more", "--webhook-park-after %s is too short", &f.parkAfter)
	}
	if f.disableAfter != 0 && time.Duration(f.disableAfter) < webhookAfterMin {
		return c, term.Usage("give one second or more, or 0 for never", "--webhook-disable-after %s is too short", &f.disableAfter)
	}
	if f.parallel < 1 || f.parallel > parallelMax {
		return c, term.Usage(fmt.Sprintf("give 1 to %d", parallelMax), "--webhook-parallel %d is out of range", f.parallel)
	}
	if f.proxyFile != "" {
		if f.proxy != "" {
			return c, term.Usage("leave one of them out", "--webhook-proxy and --webhook-proxy-file both name a proxy")
		}
		if f.proxy, err = database.ReadURL("--webhook-proxy-file", "proxy", f.proxyFile); err != nil {
			return c, err
		}
	}
	if c.Proxy, err = parseWebhookProxy(f.proxy); err != nil {
		return c, err
	}
	if c.Roots, err = readWebhookCA(f.ca); err != nil {
		return c, err
	}
	c.Off, c.Schedule, c.Timeout = f.on == "off", f.schedule, time.Duration(f.timeout)
	c.ParkAfter, c.DisableAfter, c.Parallel = time.Duration(f.parkAfter), time.Duration(f.disableAfter), f.parallel
	return c, nil
}

// ParseWebhookAllow parses the values of --webhook-allow.
func ParseWebhookAllow(values []string) (*target.Rules, error) {
	rules, err := target.NewRules(term.SplitLists(values))
	if err != nil {
		return nil, term.Usage("give a host name, an address, or a network such as 10.0.0.0/8", "--webhook-allow: %w", err)
	}
	return rules, nil
}

func parseWebhookProxy(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		// The text may contain a password.
		return nil, term.Usage("give it as http://proxy.example:3128", "--webhook-proxy is not the URL of an http proxy")
	}
	return u, nil
}

func readWebhookCA(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := readPEM(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, term.Fail(term.ExitConfig, "give a PEM file of the CAs that signed the endpoints' certificates", "%s contains no certificate", file)
	}
	return roots, nil
}

// pauses is a flag value: durations separated by commas.
type pauses []time.Duration

func (p *pauses) Type() string { return "pauses" }

func (p *pauses) String() string {
	texts := make([]string, len(*p))
	for i := range *p {
		d := term.Duration((*p)[i])
		texts[i] = d.String()
	}
	return strings.Join(texts, ",")
}

func (p *pauses) Set(text string) error {
	var list pauses
	for _, part := range term.SplitLists([]string{text}) {
		var d term.Duration
		if d.Set(part) != nil || time.Duration(d) < pauseMin || time.Duration(d) > pauseMax {
			return errors.New("give pauses of 50ms to 24h, such as 5s,5m,30m")
		}
		list = append(list, time.Duration(d))
	}
	if len(list) == 0 || len(list) > pausesMax {
		return fmt.Errorf("give 1 to %d pauses, such as 5s,5m,30m", pausesMax)
	}
	*p = list
	return nil
}
