package alarms

import (
	"fmt"
	"strings"
	"testing"
)

// Promise (Guard §7, §8, §9): URLs are spelled as shoutrrr spells them; a wrong one is refused with the part
// that is wrong, and without the URL
func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ url, shown, base string }{
		{"ntfy://push.example/topic", "ntfy://push.example/…", "https://push.example/topic"},
		{"NTFY://canary:canary@push.example:8443/topic?scheme=http", "ntfy://push.example:8443/…", "http://push.example:8443/topic"},
		{"gotify://push.example/canary", "gotify://push.example/…", "https://push.example"},
		{"gotify://push.example:80/sub/path/canary?disableTLS=yes", "gotify://push.example:80/…", "http://push.example:80/sub/path"},
		{"slack://hook:canaryA-canaryB-canaryC@webhook", "slack://slack.com/…", "https://hooks.slack.com/services/canaryA/canaryB/canaryC"},
		{"slack://bot@canaryA/canaryB/canaryC?color=good", "slack://slack.com/…", "https://hooks.slack.com/services/canaryA/canaryB/canaryC"},
		{"slack://xoxb:canary-1@CHANNEL", "slack://slack.com/…", "https://slack.com/api/chat.postMessage"},
		{"discord://canary@123456", "discord://discord.com/…", "https://discord.com/api/webhooks/123456/canary"},
		{"telegram://12:canary@telegram?chats=@one,-100", "telegram://api.telegram.org/…", "https://api.telegram.org/bot12:canary/sendMessage"},
		{"telegram://12:canary@telegram/?channels=@one", "telegram://api.telegram.org/…", "https://api.telegram.org/bot12:canary/sendMessage"},
		{"matrix://user:canary@matrix.example:8448/?rooms=!a:matrix.example,#b:matrix.example", "matrix://matrix.example:8448/…", "https://matrix.example:8448"},
		{"matrix://:canary@matrix.example/?rooms=a&disableTLS=yes", "matrix://matrix.example/…", "http://matrix.example"},
		{"generic+https://user:canary@hooks.example/a%2Fb?token=canary&@X-Key=canary", "generic+https://hooks.example/…", "https://hooks.example/a%2Fb?token=canary"},
		{"generic+http://hooks.example", "generic+http://hooks.example/…", "http://hooks.example"},
		{"generic://hooks.example/x?disabletls=yes&a=b", "generic://hooks.example/…", "http://hooks.example/x?a=b"},
		{"smtp://user:canary@mail.example:587/?from=a@b.example&to=c@d.example,e@f.example", "smtp://mail.example:587/…", ""},
		{"smtp://[::1]/?fromAddress=a@b.example&toAddresses=c@d.example&encryption=none", "smtp://[::1]/…", ""},
	} {
		target, err := Parse(c.url)
		if err != nil {
			t.Errorf("Parse(%q) = %v", c.url, err)
			continue
		}
		base := ""
		if target.base != nil {
			base = target.base.String()
		}
		if target.Shown() != c.shown || Shown(c.url) != c.shown || base != c.base {
			t.Errorf("Parse(%q): shown as %s, sent to %s; want %s, %s", c.url, target.Shown(), base, c.shown, c.base)
		}
		if text := fmt.Sprintf("%s %v %+v %#v", target, target, target, target); strings.Contains(text, "canary") {
			t.Errorf("%q prints as %s", c.url, text)
		}
	}
	for url, part := range map[string]string{
		"canary":                                                        "it has no scheme",
		"":                                                              "it has no scheme",
		"nfty://canary.example/canary":                                  "did you mean ntfy?",
		"https://canary.example/x":                                      "its scheme is unknown: begin with one of",
		"ntfy://push.example":                                           "it has no topic",
		"ntfy://push.example/":                                          "it has no topic",
		"ntfy:///topic":                                                 "it has no host",
		"ntfy://:80/topic":                                              "it has no host",
		"ntfy://push.example:canary/t":                                  "it is not a URL",
		"ntfy://push.example:99999/t":                                   "its port is not valid",
		"ntfy://push.example:/t":                                        "its port is not valid",
		"ntfy://push.example/t?scheme=canary":                           "its scheme= is",
		"ntfy://push.example/canary\nX: y":                              "it has a line break",
		"ntfy://push.example/canary\x00":                                "control character",
		"gotify://push.example/canary%0aX":                              "it has a line break", // in a header, which no attempt could send
		"matrix://:canary%0d%0aX@matrix.example?rooms=a":                "it has a line break",
		"generic+https://h.example/?@X-Key=canary%0D%0AX":               "it has a line break",
		"generic+https://h.example/?a=canary%0&b=canary":                "it is not a URL",
		"gotify://push.example":                                         "it has no token",
		"slack://canary/canary":                                         "no three tokens",
		"slack://hook:canary-canary@webhook":                            "no three tokens",
		"discord://123456":                                              "it has no token",
		"telegram://canary@telegram":                                    "it has no token",
		"telegram://12:canary@telegram":                                 "it has no chats",
		"matrix://matrix.example/?rooms=a":                              "it has no password",
		"matrix://user:canary@matrix.example":                           "it has no rooms",
		"smtp://mail.example/?to=canary@d.example":                      "no valid from=",
		"smtp://mail.example/?from=canary@b.example":                    "it has no to=",
		"smtp://mail.example/?from=a@b.example&to=canary":               "an address in to=",
		"smtp://mail.example/?from=a@b.example%0d%0aX:canary&to=b@c.de": "no valid from=",
		"smtp://mail.example/?from=a@b.c&to=d@e.f&encryption=canary":    "its encryption=",
		"ntfy://push.example/" + strings.Repeat("canary", 400):          "it has more than",
	} {
		target, err := Parse(url)
		if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "canary") || Shown(url) != "(not valid)" {
			t.Errorf("Parse(%q) = %v, %v, shown as %q; want that %s", url, target, err, Shown(url), part)
		}
	}
}

// Promise (Guard §7, §8, §9): a URL with a secret is refused on a command line
func TestIsSecret(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{
		"ntfy://push.example/topic":                            false,
		"generic+https://hooks.example/x?a=b":                  false,
		"smtp://mail.example/?from=a@b.example&to=c@d.example": false,
		"ntfy://user:pass@push.example/topic":                  true,
		"ntfy://:tk_1@push.example/topic":                      true,
		"generic+https://hooks.example/x?API_Token=1":          true,
		"generic+https://hooks.example/x?key=1":                true,
		"generic+https://hooks.example/x?@Authorization=1":     true,
		"generic+https://hooks.example/x?client_secret=1":      true,
		"generic+https://hooks.example/x#?token=1":             true, // a # is part of the path
		"gotify://push.example/x":                              true,
		"Slack://a/b/c":                                        true,
		"discord://a@b":                                        true,
		"telegram://a:b@telegram?chats=c":                      true,
		"matrix://:a@b?rooms=c":                                true,
		"ntfy://push.example:%zz/":                             true, // not a URL, and perhaps a secret
	} {
		if got := IsSecret(url); got != want {
			t.Errorf("IsSecret(%q) = %t", url, got)
		}
	}
}

// FuzzParse: whatever the text is, nothing of a secret in it is shown.
func FuzzParse(f *testing.F) {
	for _, url := range []string{one, "smtp://u:p@h/?from=a@b.c&to=d@e.f", "matrix://:t@h?rooms=#a", "slack://a/b/c", "generic+https://h/?@a=b"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		target, err := Parse(url)
		if err != nil {
			return
		}
		if strings.ContainsAny(target.Shown(), "@?\r\n") || !strings.HasSuffix(target.Shown(), "/…") {
			t.Errorf("Parse(%q) is shown as %q", url, target.Shown())
		}
		m := Message{ID: "alm_1", Title: "T", Text: "x", Next: "n", Instance: "i"}
		if target.service != nil {
			for _, s := range target.service(target, m) {
				if s.method == "" || s.url == "" {
					t.Errorf("Parse(%q) makes the request %+v", url, s)
				}
			}
		}
	})
}
