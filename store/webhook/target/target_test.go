package target_test

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook/target"
)

// special are the networks that no webhook reaches unless the operator allows it.
var special = []string{
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
	"::/127", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	"5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	"::ffff:10.0.0.0/104", "::ffff:127.0.0.0/104", "::ffff:169.254.169.254/128", "::ffff:168.63.129.16/128",
}

// public are addresses beside the special ones, and usual ones.
var public = []string{
	"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255",
	"169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255",
	"192.169.0.0", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0",
	"223.255.255.255", "168.63.129.15", "168.63.129.17", "::ffff:8.8.8.8",
	"2001:200::", "2001:db7:ffff::1", "2001:db9::", "2003::1", "2606:4700:4700::1111", "2a00:1450::1", "3ffe::1",
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func codeOf(err error) target.Code {
	var refused *target.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

// Promise (Webhooks): private addresses are refused, again when dialling
func TestAddresses(t *testing.T) {
	t.Parallel()
	rules := must.Get(target.NewRules(nil))(t)
	t.Run("no_special_address_passes", func(t *testing.T) {
		t.Parallel()
		for _, text := range special {
			p := netip.MustParsePrefix(text)
			for _, a := range []netip.Addr{p.Masked().Addr(), p.Addr(), lastOf(p)} {
				if err := rules.CheckAddress("example.com", a); codeOf(err) != target.AddressNotAllowed {
					t.Errorf("CheckAddress(%s), of %s = %v, want %s", a, p, err, target.AddressNotAllowed)
				}
			}
		}
	})
	t.Run("public_addresses_pass", func(t *testing.T) {
		t.Parallel()
		for _, text := range public {
			if err := rules.CheckAddress("example.com", netip.MustParseAddr(text)); err != nil {
				t.Errorf("CheckAddress(%s) = %v, want nil", text, err)
			}
		}
	})
	t.Run("an_address_of_this_machine_is_refused", func(t *testing.T) {
		t.Parallel()
		own := netip.MustParseAddr("8.8.4.4")
		rules := must.Get(target.NewRules([]string{"8.8.8.8"}))(t)
		rules.Own = func() ([]netip.Addr, error) { return []netip.Addr{own, netip.MustParseAddr("8.8.8.8")}, nil }
		for text, want := range map[string]target.Code{"8.8.4.4": target.AddressNotAllowed, "::ffff:8.8.4.4": target.AddressNotAllowed, "8.8.4.5": "", "8.8.8.8": ""} {
			if got := codeOf(rules.CheckAddress("example.com", netip.MustParseAddr(text))); got != want {
				t.Errorf("CheckAddress(%s) = %q, want %q", text, got, want)
			}
		}
		rules.Own = func() ([]netip.Addr, error) { return nil, errors.New("no interfaces") }
		if err := rules.CheckAddress("example.com", netip.MustParseAddr("1.1.1.1")); codeOf(err) != target.AddressNotAllowed {
			t.Errorf("CheckAddress with unknown own addresses = %v, want %s", err, target.AddressNotAllowed)
		}
	})
	t.Run("a_zone_or_no_address_is_refused", func(t *testing.T) {
		t.Parallel()
		for _, a := range []netip.Addr{{}, netip.MustParseAddr("2606:4700::1%eth0")} {
			if err := rules.CheckAddress("example.com", a); codeOf(err) != target.AddressNotAllowed {
				t.Errorf("CheckAddress(%s) = %v, want %s", a, err, target.AddressNotAllowed)
			}
		}
	})
}

// Promise (Webhooks): the known metadata addresses of clouds are refused whatever is allowed
func TestAllow(t *testing.T) {
	t.Parallel()
	rules := must.Get(target.NewRules([]string{"10.1.0.0/16", "192.168.7.7", "fd12::/16", "Hooks.Internal"}))(t)
	t.Run("a_network_an_address_and_a_name_let_in", func(t *testing.T) {
		t.Parallel()
		for _, c := range []struct {
			host, address string
			want          target.Code
		}{
			{"example.com", "10.1.2.3", ""},
			{"example.com", "::ffff:10.1.2.3", ""},
			{"example.com", "10.2.0.0", target.AddressNotAllowed},
			{"example.com", "192.168.7.7", ""},
			{"example.com", "192.168.7.8", target.AddressNotAllowed},
			{"example.com", "fd12::1", ""},
			{"example.com", "fd13::1", target.AddressNotAllowed},
			{"hooks.internal", "172.16.0.1", ""},
			{"hooks.internal.", "172.16.0.1", ""},
			{"x.hooks.internal", "172.16.0.1", target.AddressNotAllowed},
			{"hooks.internal.example.com", "172.16.0.1", target.AddressNotAllowed},
		} {
			if got := codeOf(rules.CheckAddress(c.host, netip.MustParseAddr(c.address))); got != c.want {
				t.Errorf("CheckAddress(%s, %s) = %q, want %q", c.host, c.address, got, c.want)
			}
		}
	})
	t.Run("a_network_lets_no_address_of_this_machine_in", func(t *testing.T) {
		t.Parallel()
		own := []string{"10.1.0.5", "10.1.0.6", "10.1.0.7", "fd12::5", "127.0.0.1", "::1"}
		for _, c := range []struct {
			allow string
			host  string
			in    []string // of own
		}{
			{"10.1.0.0/16", "example.com", nil},
			{"10.1.0.4/30", "example.com", nil},
			{"0.0.0.0/0", "example.com", nil},
			{"fd12::/16", "example.com", nil},
			{"::/0", "example.com", nil},
			{"10.1.0.6", "example.com", []string{"10.1.0.6"}},
			{"10.1.0.6/32", "example.com", []string{"10.1.0.6"}},
			{"fd12::5/128", "example.com", []string{"fd12::5"}},
			{"127.0.0.0/8", "example.com", []string{"127.0.0.1"}},
			{"hooks.internal", "hooks.internal", own},
		} {
			rules := must.Get(target.NewRules([]string{c.allow}))(t)
			rules.Own = func() (list []netip.Addr, err error) {
				for _, text := range own {
					list = append(list, netip.MustParseAddr(text))
				}
				return list, nil
			}
			var in []string
			for _, text := range own {
				if rules.CheckAddress(c.host, netip.MustParseAddr(text)) == nil {
					in = append(in, text)
				}
			}
			if !slices.Equal(in, c.in) {
				t.Errorf("%s lets in %v of this machine, want %v", c.allow, in, c.in)
			}
		}
		both := must.Get(target.NewRules([]string{"10.1.0.0/16", "127.0.0.0/7"}))(t)
		for text, want := range map[string]target.Code{"10.1.0.5": "", "127.0.0.2": target.AddressNotAllowed, "126.0.0.1": ""} {
			if got := codeOf(both.CheckAddress("example.com", netip.MustParseAddr(text))); got != want {
				t.Errorf("CheckAddress(%s) without known own addresses = %q, want %q", text, got, want)
			}
		}
	})
	t.Run("metadata_and_multicast_are_never_let_in", func(t *testing.T) {
		t.Parallel()
		all := must.Get(target.NewRules([]string{"0.0.0.0/0", "::/0", "hooks.internal"}))(t)
		for _, text := range []string{
			"169.254.169.254", "169.254.0.0", "169.254.255.255", "fe80::1", "febf::1", "fd00:ec2::254", "168.63.129.16", "100.100.100.200",
			"224.0.0.1", "239.255.255.255", "ff02::1", "0.0.0.0", "::",
			"192.0.0.192", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1",
			"::ffff:169.254.169.254", "::ffff:100.100.100.200", "::169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1",
			"64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", "::ffff:0:169.254.169.254", "2001:0:808:808::5601:5601", "fd99::5efe:169.254.169.254",
		} {
			if err := all.CheckAddress("hooks.internal", netip.MustParseAddr(text)); codeOf(err) != target.AddressNotAllowed {
				t.Errorf("CheckAddress(%s) with everything allowed = %v, want %s", text, err, target.AddressNotAllowed)
			}
		}
	})
	t.Run("a_value_without_effect_is_an_error", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{
			"", "https://example.com", "example.com:443", "10.0.0.0/33", "10.0.0/8", "10.0.0.256", "0x7f.1", "fe80::1%eth0", "::ffff:10.0.0.0/104", "a b", "*.example.com",
			"169.254.169.254", "169.254.0.0/17", "fe80::/64", "ff02::1", "0.0.0.0", "::", "192.0.0.192", "fd00:ec2::23", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1",
		} {
			if _, err := target.NewRules([]string{text}); err == nil {
				t.Errorf("NewRules(%q) = nil, want an error", text)
			}
		}
	})
}

// Promise (Webhooks): private addresses are refused, again when dialling
func TestParseURL(t *testing.T) {
	t.Parallel()
	rules := must.Get(target.NewRules([]string{"10.0.0.0/8", "::1", "hooks", "xn--bcher-kva.example"}))(t)
	for _, c := range []struct{ name, given, want string }{
		{"kept_as_given", "https://example.com/a/%2e%2E//b?q=%20&r", "https://example.com/a/%2e%2E//b?q=%20&r"},
		{"scheme_and_host_in_lower_case", "HTTPS://Example.COM:8443/Path?Q", "https://example.com:8443/Path?Q"},
		{"no_path", "https://example.com", "https://example.com"},
		{"query_without_path", "https://example.com?a@b", "https://example.com?a@b"},
		{"international", "https://BÜCHER.example/ü", "https://xn--bcher-kva.example/ü"},
		{"trailing_dot", "https://example.com./", "https://example.com./"},
		{"underscore", "https://my_app.example.com/", "https://my_app.example.com/"},
		{"ipv4", "https://1.1.1.1/", "https://1.1.1.1/"},
		{"ipv6", "https://[2606:4700::1111]:443/", "https://[2606:4700::1111]:443/"},
		{"http_to_an_allowed_network", "http://10.2.3.4:8080/x", "http://10.2.3.4:8080/x"},
		{"http_to_an_allowed_address", "http://[::1]:8080/x", "http://[::1]:8080/x"},
		{"http_to_an_allowed_name", "http://Hooks:3000/x", "http://hooks:3000/x"},
		{"http_to_an_allowed_international_name", "http://bücher.example/", "http://xn--bcher-kva.example/"},
		{"longest", "https://example.com/" + strings.Repeat("a", 2_028), "https://example.com/" + strings.Repeat("a", 2_028)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := rules.ParseURL(c.given); err != nil || got != c.want {
				t.Errorf("ParseURL(%q) = %q, %v, want %q", c.given, got, err, c.want)
			}
		})
	}
	for _, c := range []struct {
		name  string
		want  target.Code
		given []string
	}{
		{"not_a_web_address", target.InvalidURL, []string{"", "x", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com", "//example.com/", "javascript:alert(1)", "https:example.com", "https:/a//example.com"}},
		{"no_host", target.InvalidURL, []string{"https://", "https:///x", "https://:443/", "https://?x", "https://./"}},
		{"bad_host", target.InvalidURL, []string{"https://a..b/", "https://-%41/", "https://a%2eb/", "https://a_b*/", "https://[::1", "https://[::1]x/", "https://::1/", "https://[1.1.1.1]/", "https://a|b/", "https://" + strings.Repeat("a", 64) + "/", "https://" + strings.Repeat("a.", 127) + "a/"}},
		{"bad_port", target.InvalidURL, []string{"https://example.com:/", "https://example.com:0/", "https://example.com:65536/", "https://example.com:http/", "https://example.com:-1/", "https://example.com:+1/"}},
		{"user", target.InvalidURL, []string{"https://u@example.com/", "https://u:p@example.com/", "https://@example.com/", "https://1.1.1.1@169.254.169.254/"}},
		{"fragment", target.InvalidURL, []string{"https://example.com/#a", "https://example.com/#", "https://example.com#@10.0.0.1/"}},
		{"not_utf8", target.InvalidURL, []string{"https://example.com/\xff", "https://example.com/?q=\xc3", "https://ex\xffample.com/"}},
		{"space_or_control", target.InvalidURL, []string{" https://example.com/", "https://example.com/ ", "https://example.com/a b", "https://example.com/\n", "https://example.com/\x00", "https://example.com/\u2028", "https://example.com/\u00a0"}},
		{"backslash", target.InvalidURL, []string{`https://example.com\@1.1.1.1/`, `https:\\example.com`}},
		{"too_long", target.InvalidURL, []string{"https://example.com/" + strings.Repeat("a", 2_029)}},
		{"numbers_that_parsers_read_differently", target.InvalidURL, []string{"https://2130706433/", "https://0x7f.1/", "https://0x7f000001/", "https://0177.0.0.1/", "https://127.1/", "https://127.0.0.1./", "https://1.1.1.1.1/", "https://a.0x/", "https://a.1/", "https://１２７.0.0.1/", "https://0X7F.1/"}},
		{"zone", target.InvalidURL, []string{"https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[2606:4700::1%251]/"}},
		{"http", target.InvalidURL, []string{"http://example.com/", "http://1.1.1.1/", "http://x.hooks/"}},
		{"special_literal", target.AddressNotAllowed, []string{"https://127.0.0.1/", "https://192.168.0.1/", "https://169.254.169.254/latest", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://[fe80::1]/", "https://[64:ff9b::7f00:1]/", "https://127。0。0。1/", "http://127.0.0.1/"}},
		{"localhost", target.AddressNotAllowed, []string{"https://localhost/", "https://LOCALHOST:8080", "https://localhost./", "https://a.localhost/", "http://localhost/", "https://ｌocalhost/"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, given := range c.given {
				if got, err := rules.ParseURL(given); codeOf(err) != c.want {
					t.Errorf("ParseURL(%q) = %q, %v, want %s", given, got, err, c.want)
				}
			}
		})
	}
	t.Run("dev_allows_loopback", func(t *testing.T) {
		t.Parallel()
		dev := must.Get(target.NewRules(target.DevAllowed))(t)
		for _, given := range []string{"http://127.0.0.1:3000/hook", "http://localhost:3000/hook", "http://[::1]:3000/", "https://127.9.9.9/"} {
			if _, err := dev.ParseURL(given); err != nil {
				t.Errorf("ParseURL(%q) = %v, want nil", given, err)
			}
		}
	})
}

func TestOriginLeavesOutPathAndQuery(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"https://example.com/secret?x=1": "https://example.com", "https://example.com?a//b": "https://example.com",
		"http://[::1]:80/a": "http://[::1]:80", "https://example.com": "https://example.com",
	} {
		if got := target.Origin(given); got != want {
			t.Errorf("Origin(%q) = %q, want %q", given, got, want)
		}
	}
}

// FuzzParseURL checks that the sender, which parses the stored URL with net/url, meets the
// host that was judged.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"https://example.com/", "https://a\\@b/", "https://[::1]:80?x", "https://ü.example#", "https://1.1.1.1:443", "https://%31/", "HTTPS://0X7F.1"} {
		f.Add(seed)
	}
	rules := must.Get(target.NewRules(nil))(f)
	f.Fuzz(func(t *testing.T, text string) {
		stored, err := rules.ParseURL(text)
		if err != nil {
			return
		}
		again, err := rules.ParseURL(stored)
		if err != nil || again != stored {
			t.Errorf("ParseURL(%q) = %q, %v, want itself", stored, again, err)
		}
		u := must.Get(url.Parse(stored))(t)
		if u.Scheme != "https" || u.User != nil || "https://"+u.Host != target.Origin(stored) {
			t.Errorf("url.Parse(%q) has the host %q, want that of %q", stored, u.Host, target.Origin(stored))
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && rules.CheckAddress(u.Hostname(), a) != nil {
			t.Errorf("ParseURL(%q) passed, whose address %s is refused", text, a)
		}
		if slices.Contains([]string{"", "localhost"}, u.Hostname()) {
			t.Errorf("ParseURL(%q) passed, whose host is %q", text, u.Hostname())
		}
	})
}
