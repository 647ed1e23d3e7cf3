package alarms

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"tollhouse/store/spelling"
)

// Target is where alarms go: one URL. It prints as [Target.Shown], since its URL may be a secret.
type Target struct {
	shown string
	text  string // the URL
	host  string // of a mail server
	port  string

	service  func(t *Target, m Message) []step // nil for mail and matrix
	base     *url.URL                          // of an HTTP service
	user     string
	password string
	values   url.Values
	from     *mail.Address
	to       []*mail.Address
	plain    bool // mail without TLS
}

// Shown is the scheme and the host.
func (t *Target) Shown() string { return t.shown }

// Is reports whether two targets are the same URL.
func (t *Target) Is(other *Target) bool { return t.text == other.text }

func (t *Target) String() string       { return t.shown }
func (t *Target) GoString() string     { return t.shown }
func (t *Target) LogValue() slog.Value { return slog.StringValue(t.shown) }

// scheme says how URLs of a service are read.
type scheme struct {
	parse  func(t *Target, u *url.URL) error
	secret bool // the whole URL is a secret
}

var schemes = map[string]scheme{
	"ntfy":          {parse: parseNtfy},
	"gotify":        {parse: parseGotify, secret: true},
	"slack":         {parse: parseSlack, secret: true},
	"discord":       {parse: parseDiscord, secret: true},
	"telegram":      {parse: parseTelegram, secret: true},
	"matrix":        {parse: parseMatrix, secret: true},
	"generic":       {parse: parseGeneric},
	"generic+https": {parse: parseGeneric},
	"generic+http":  {parse: parseGeneric},
	"smtp":          {parse: parseMail},
}

// Schemes are the schemes of the URLs, in order.
func Schemes() []string {
	var names []string
	for name := range schemes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Errors of Parse. None repeats the URL.
var (
	errNoScheme  = errors.New("it has no scheme: begin with one of " + strings.Join(Schemes(), ", "))
	errLineBreak = errors.New("it has a line break or another control character")
	errNotURL    = errors.New("it is not a URL")
	errNoHost    = errors.New("it has no host")
)

const urlSizeMax = 2048 // bytes

// Parse reads a URL.
func Parse(text string) (*Target, error) {
	name, rest, found := strings.Cut(text, "://")
	if strings.ContainsFunc(text, unicode.IsControl) {
		return nil, errLineBreak
	}
	if !found || len(text) > urlSizeMax {
		if found {
			return nil, fmt.Errorf("it has more than %d bytes", urlSizeMax)
		}
		return nil, errNoScheme
	}
	name = strings.ToLower(name)
	s, known := schemes[name]
	if !known {
		if nearest, ok := spelling.Nearest(name, slices.Values(Schemes())); ok {
			return nil, fmt.Errorf("its scheme is unknown; did you mean %s?", nearest)
		}
		return nil, errors.New("its scheme is unknown: begin with one of " + strings.Join(Schemes(), ", "))
	}
	u, err := url.Parse(name + "://" + withoutFragment(rest))
	if err != nil {
		return nil, errNotURL
	}
	if u.Host == "" || strings.HasPrefix(u.Host, ":") {
		return nil, errNoHost
	}
	if port := u.Port(); port == "" && strings.HasSuffix(u.Host, ":") || len(port) > 5 || port > "65535" && len(port) == 5 {
		return nil, errors.New("its port is not valid")
	}
	t := &Target{text: text, shown: name + "://" + u.Host + "/…", values: lowered(u.Query())}
	t.user = u.User.Username()
	t.password, _ = u.User.Password()
	if err := s.parse(t, u); err != nil {
		return nil, err
	}
	switch plain, err := url.PathUnescape(text); {
	case err != nil: // in the query, of which such a member is left out
		return nil, errNotURL
	case strings.ContainsFunc(plain, unicode.IsControl): // no header has one
		return nil, errLineBreak
	}
	return t, nil
}

// withoutFragment keeps a # as it is: in a matrix URL it begins a room.
func withoutFragment(text string) string { return strings.ReplaceAll(text, "#", "%23") }

// lowered has the names in lower case.
func lowered(query url.Values) url.Values {
	all := url.Values{}
	for name, values := range query {
		all[strings.ToLower(name)] = values
	}
	return all
}

// secretMembers are parts of the names of query members that hold secrets.
var secretMembers = []string{"token", "key", "secret", "password", "auth"}

// IsSecret reports whether a URL must not stand on a command line.
func IsSecret(text string) bool {
	name, _, _ := strings.Cut(text, "://")
	if schemes[strings.ToLower(name)].secret {
		return true
	}
	u, err := url.Parse(withoutFragment(text))
	if err != nil {
		return true
	}
	if _, has := u.User.Password(); has {
		return true
	}
	for member := range u.Query() {
		for _, word := range secretMembers {
			if strings.Contains(strings.ToLower(member), word) {
				return true
			}
		}
	}
	return false
}

// Shown masks a URL as a setting: what it shows has no secret, whatever the text is.
func Shown(text string) string {
	t, err := Parse(text)
	if err != nil {
		return "(not valid)"
	}
	return t.shown
}

func isOn(value string) bool {
	switch strings.ToLower(value) {
	case "yes", "true", "1", "on":
		return true
	}
	return false
}

// web makes the base of an HTTP service. disableTLS is what turns TLS off.
func (t *Target) web(host, path string, disableTLS bool) {
	t.base = &url.URL{Scheme: "https", Host: host, Path: strings.TrimSuffix(path, "/")}
	if disableTLS {
		t.base.Scheme = "http"
	}
}

func parseNtfy(t *Target, u *url.URL) error {
	if strings.Trim(u.Path, "/") == "" {
		return errors.New("it has no topic: ntfy://host/topic")
	}
	switch t.values.Get("scheme") {
	case "", "https", "http":
	default:
		return errors.New("its scheme= is neither http nor https")
	}
	t.web(u.Host, u.Path, t.values.Get("scheme") == "http")
	t.service = ntfySteps
	return nil
}

func parseGotify(t *Target, u *url.URL) error {
	path, token := "", strings.Trim(u.Path, "/")
	if at := strings.LastIndexByte(token, '/'); at >= 0 {
		path, token = "/"+token[:at], token[at+1:]
	}
	if token == "" {
		return errors.New("it has no token: gotify://host/token")
	}
	t.password = token
	t.web(u.Host, path, isOn(t.values.Get("disabletls")))
	t.service = gotifySteps
	return nil
}

// parseSlack takes slack://hook:A-B-C@webhook, slack://xoxb:…@channel, and slack://[name@]A/B/C.
func parseSlack(t *Target, u *url.URL) error {
	t.shown = "slack://slack.com/…"
	var tokens []string
	switch t.user {
	case "hook":
		tokens = strings.Split(t.password, "-")
	case "xoxb", "xoxp":
		if t.password == "" {
			return errors.New("it has no token: slack://xoxb:token@channel")
		}
		t.web("slack.com", "/api/chat.postMessage", false)
		t.values.Set("channel", u.Host)
		t.password = t.user + "-" + strings.TrimPrefix(t.password, t.user+"-")
		t.service = slackSteps
		return nil
	default:
		tokens = strings.Split(u.Host+u.Path, "/")
	}
	if len(tokens) != 3 || slices.Contains(tokens, "") {
		return errors.New("it has no three tokens: slack://hook:A-B-C@webhook")
	}
	t.web("hooks.slack.com", "/services/"+strings.Join(tokens, "/"), false)
	t.password = ""
	t.service = slackSteps
	return nil
}

func parseDiscord(t *Target, u *url.URL) error {
	t.shown = "discord://discord.com/…"
	if t.user == "" {
		return errors.New("it has no token: discord://token@id")
	}
	t.web("discord.com", "/api/webhooks/"+u.Host+"/"+t.user, false)
	t.service = discordSteps
	return nil
}

func parseTelegram(t *Target, u *url.URL) error {
	t.shown = "telegram://api.telegram.org/…"
	if t.user == "" || t.password == "" {
		return errors.New("it has no token: telegram://token@telegram?chats=…")
	}
	chats := listOf(t.values, "chats", "channels")
	if len(chats) == 0 {
		return errors.New("it has no chats: telegram://token@telegram?chats=…")
	}
	t.values["chats"] = chats
	t.web("api.telegram.org", "/bot"+t.user+":"+t.password+"/sendMessage", false)
	t.service = telegramSteps
	return nil
}

func parseMatrix(t *Target, u *url.URL) error {
	if t.password == "" {
		return errors.New("it has no password: matrix://user:password@host or matrix://:token@host")
	}
	rooms := listOf(t.values, "rooms", "room")
	for i, room := range rooms {
		if !strings.HasPrefix(room, "!") && !strings.HasPrefix(room, "#") {
			rooms[i] = "#" + room
		}
	}
	if len(rooms) == 0 {
		return errors.New("it has no rooms: matrix://user:password@host?rooms=…")
	}
	t.values["rooms"] = rooms
	t.web(u.Host, "", isOn(t.values.Get("disabletls")))
	return nil
}

func parseGeneric(t *Target, u *url.URL) error {
	_, over, _ := strings.Cut(u.Scheme, "+")
	t.web(u.Host, "", over == "http" || over == "" && isOn(t.values.Get("disabletls")))
	t.base.Path, t.base.RawPath = u.Path, u.RawPath
	query := u.Query()
	for name := range query {
		if name == "disabletls" && over == "" || strings.HasPrefix(name, "@") {
			query.Del(name)
		}
	}
	t.base.RawQuery = query.Encode()
	t.values = url.Values{}
	for name, values := range u.Query() {
		if header, is := strings.CutPrefix(name, "@"); is {
			t.values[header] = values
		}
	}
	t.service = genericSteps
	return nil
}

func parseMail(t *Target, u *url.URL) (err error) {
	t.host, t.port = u.Hostname(), u.Port()
	if t.port == "" {
		t.port = "25"
	}
	if t.from, err = mail.ParseAddress(first(t.values, "from", "fromaddress")); err != nil {
		return errors.New("it has no valid from=: smtp://host/?from=A&to=B,C")
	}
	for _, address := range listOf(t.values, "to", "toaddresses") {
		to, err := mail.ParseAddress(address)
		if err != nil {
			return errors.New("an address in to= is not valid: smtp://host/?from=A&to=B,C")
		}
		t.to = append(t.to, to)
	}
	if len(t.to) == 0 {
		return errors.New("it has no to=: smtp://host/?from=A&to=B,C")
	}
	switch strings.ToLower(t.values.Get("encryption")) {
	case "", "auto", "explicittls", "implicittls":
	case "none":
		t.plain = true
	default:
		return errors.New("its encryption= is not none")
	}
	return nil
}

func first(values url.Values, names ...string) string {
	for _, name := range names {
		if v := values.Get(name); v != "" {
			return v
		}
	}
	return ""
}

func listOf(values url.Values, names ...string) (all []string) {
	for part := range strings.SplitSeq(first(values, names...), ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// isLoopback reports whether the mail server is on this machine.
func (t *Target) isLoopback() bool {
	ip := net.ParseIP(t.host)
	return t.host == "localhost" || ip != nil && ip.IsLoopback()
}
