package server

import (
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	t.Run("public_url", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]string{
			"https://pay.example": "https://pay.example", "https://PAY.example:8443/till/": "https://pay.example:8443/till",
			"http://127.0.0.1:8080": "http://127.0.0.1:8080", "https://pay.example/": "https://pay.example",
			"": "", "pay.example": "", "https://": "", "https://pay.example/?a": "", "https://pay.example/#a": "",
			"https://me@pay.example": "", "https://pay.example//a": "", "https://pay.example/a/../b": "",
			"https://pay.example/a%2fb": "", "mailto:me@pay.example": "", "https://:8080": "", "https://pay.example/%zz": "",
			"https://[::1]:8080": "https://[::1]:8080", "https://pay\".example": "", "https://b\u00fccher.example": "", "https://pay.example:": "", "https://[fe80::1%25eth0]": "",
			"https://pay.example/x.y%20z": "", "https://pay.example/\u00e4": "", "https://pay.example/a b": "", "https://pay.example/a%3Fb": "",
			"https://me:hunter22@pay.example": "", "https://me:hunter22@pay.example:x": "", "ftp://me:a/hunter22@pay.example": "",
		} {
			got, err := ParsePublicURL(text)
			if (err != nil) != (want == "") || err == nil && got.String() != want {
				t.Errorf("ParsePublicURL(%q) = %v, %v; want %q", text, got, err, want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter22") {
				t.Errorf("ParsePublicURL(%q) shows the password: %v", text, err)
			}
		}
	})
	t.Run("loopback_address", func(t *testing.T) {
		t.Parallel()
		for addr, want := range map[string]bool{
			"127.0.0.1:0": true, "[::1]:80": true, "127.8.8.8:1": true, "localhost:0": true,
			":80": false, "0.0.0.0:80": false, "[::]:80": false, "192.0.2.1:80": false,
		} {
			if got := isLoopbackAddress(addr); got != want {
				t.Errorf("isLoopbackAddress(%q) = %v, want %v", addr, got, want)
			}
		}
	})
}

// TestNetworksOfProxies: an IPv4 network is the same however it is written, because peers'
// addresses are compared as IPv4.
func TestNetworksOfProxies(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.1.2.3/8": "10.0.0.0/8", "10.1.2.3": "10.1.2.3/32", "fd00::1/8": "fd00::/8", "::1": "::1/128",
		"::ffff:10.1.2.3": "10.1.2.3/32", "::ffff:10.1.2.3/104": "10.0.0.0/8", "fe80::1%eth0": "fe80::1/128",
		"pay.example": "", "10.1.2.3:80": "", "10.0.0.0/33": "",
	} {
		got, err := parseProxies([]string{text})
		if (err != nil) != (want == "") || err == nil && (len(got) != 1 || got[0].String() != want) {
			t.Errorf("parseProxies(%q) = %v, %v; want %q", text, got, err, want)
		}
	}
}

// FuzzParsePublicURL: an accepted issuer is an origin with a path, and is accepted again
// as it is shown.
func FuzzParsePublicURL(f *testing.F) {
	for _, seed := range []string{"https://pay.example", "HTTP://[::1]:8080/till/", "https://pay.example/a%2fb", "https://me@pay.example?#", "https://pay.example/\u00e4 b/", "//pay.example", "https://pay.example:/", "http://0a\"000000000", "HTTP://[::1]:8080/!0000/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParsePublicURL(text)
		if err != nil {
			return
		}
		shown := u.String()
		if again, err := ParsePublicURL(shown); err != nil || again.String() != shown {
			t.Errorf("ParsePublicURL(%q) = %q, and of that %v, %v", text, shown, again, err)
		}
		if scheme, rest, _ := strings.Cut(shown, "://"); scheme != "http" && scheme != "https" || rest == "" || strings.ContainsAny(shown, "@?# \t\r\n\"<>") {
			t.Errorf("ParsePublicURL(%q) = %q, which is no issuer", text, shown)
		}
	})
}
