package passkey_test

import (
	"crypto/tls"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"tollhouse/handlers/passkey"
	"tollhouse/handlers/web"
	"tollhouse/store/storetest/must"
)

// Promise (Guard §5): a passkey is bound to the host of the address that was asked for; no port, path,
// Host or header of a stranger changes it, and it is offered where browsers make them
func TestAddressOfPasskeys(t *testing.T) {
	t.Parallel()
	asAsked, named := &web.Hosts{OnNetwork: true, AsAsked: true, Named: []string{".tunnel.example"}}, &web.Hosts{Named: []string{"till.example"}}
	for name, test := range map[string]struct {
		public       string
		hosts        *web.Hosts // of dev
		host         string
		tls, proxied bool
		forwarded    string // X-Forwarded-Proto

		wantRPID, wantOrigin string
		wantOffers           bool
	}{
		"behind_a_proxy":                {public: "https://pay.example", host: "pay.example", wantRPID: "pay.example", wantOrigin: "https://pay.example", wantOffers: true},
		"with_a_path":                   {public: "https://example.com/pay", host: "example.com", wantRPID: "example.com", wantOrigin: "https://example.com", wantOffers: true},
		"with_a_port":                   {public: "https://pay.example:8443", host: "pay.example:8443", wantRPID: "pay.example", wantOrigin: "https://pay.example:8443", wantOffers: true},
		"whose_proxy_drops_the_port":    {public: "https://pay.example:8443", host: "pay.example", wantRPID: "pay.example", wantOrigin: "https://pay.example:8443", wantOffers: true},
		"whose_proxy_has_its_own_port":  {public: "https://pay.example", host: "pay.example:8080", wantRPID: "pay.example", wantOrigin: "https://pay.example", wantOffers: true},
		"with_the_port_of_https":        {public: "https://pay.example:443", host: "pay.example", wantRPID: "pay.example", wantOrigin: "https://pay.example", wantOffers: true},
		"of_a_stranger":                 {public: "https://pay.example", host: "evil.example", wantRPID: "pay.example", wantOrigin: "https://pay.example", wantOffers: true},
		"forwarded_by_a_stranger":       {public: "http://pay.example", host: "pay.example", forwarded: "https", wantRPID: "pay.example", wantOrigin: "http://pay.example"},
		"plain_http":                    {public: "http://pay.example:80", host: "pay.example", wantRPID: "pay.example", wantOrigin: "http://pay.example"},
		"an_address":                    {public: "https://192.0.2.7", host: "192.0.2.7", wantRPID: "192.0.2.7", wantOrigin: "https://192.0.2.7"},
		"an_address_of_IPv6":            {public: "https://[2001:db8::7]:8443", host: "[2001:db8::7]:8443", wantRPID: "2001:db8::7", wantOrigin: "https://[2001:db8::7]:8443"},
		"a_name_without_a_dot":          {public: "https://pay", host: "pay", wantRPID: "pay", wantOrigin: "https://pay"},
		"a_name_that_ends_in_a_number":  {public: "https://pay.8", host: "pay.8", wantRPID: "pay.8", wantOrigin: "https://pay.8"},
		"loopback_by_name":              {public: "http://127.0.0.1:8080", host: "localhost:8080", wantRPID: "localhost", wantOrigin: "http://localhost:8080", wantOffers: true},
		"loopback_in_capitals":          {public: "http://127.0.0.1:8080", host: "LOCALHOST:8080", wantRPID: "localhost", wantOrigin: "http://localhost:8080", wantOffers: true},
		"loopback_by_address":           {public: "http://localhost:8080", host: "127.0.0.1:8080", wantRPID: "127.0.0.1", wantOrigin: "http://127.0.0.1:8080"},
		"loopback_with_a_mapped_port":   {public: "http://localhost:8080", host: "localhost:9000", wantRPID: "localhost", wantOrigin: "http://localhost:9000", wantOffers: true},
		"loopback_over_https":           {public: "https://localhost:8443", host: "localhost:8443", tls: true, wantRPID: "localhost", wantOrigin: "https://localhost:8443", wantOffers: true},
		"loopback_over_https_by_number": {public: "https://127.0.0.1:8443", host: "localhost:8443", tls: true, wantRPID: "localhost", wantOrigin: "https://localhost:8443", wantOffers: true},
		"dev":                           {public: "http://127.0.0.1:8080", hosts: asAsked, host: "localhost:8080", wantRPID: "localhost", wantOrigin: "http://localhost:8080", wantOffers: true},
		"dev_below_localhost":           {public: "http://127.0.0.1:8080", hosts: asAsked, host: "app.localhost:8080", wantRPID: "app.localhost", wantOrigin: "http://app.localhost:8080"},
		"dev_by_a_container":            {public: "http://127.0.0.1:8080", hosts: asAsked, host: "tollhouse:8080", wantRPID: "tollhouse", wantOrigin: "http://tollhouse:8080"},
		"dev_behind_a_tunnel":           {public: "http://127.0.0.1:8080", hosts: asAsked, host: "a.tunnel.example", proxied: true, forwarded: "https", wantRPID: "a.tunnel.example", wantOrigin: "https://a.tunnel.example", wantOffers: true},
		"dev_behind_a_stranger":         {public: "http://127.0.0.1:8080", hosts: asAsked, host: "a.tunnel.example", forwarded: "https", wantRPID: "a.tunnel.example", wantOrigin: "http://a.tunnel.example"},
		"dev_by_loopback":               {public: "https://till.example:8443", hosts: named, host: "localhost:8080", wantRPID: "localhost", wantOrigin: "http://localhost:8080", wantOffers: true},
		"dev_with_a_public_URL":         {public: "https://till.example:8443", hosts: named, host: "till.example:8443", wantRPID: "till.example", wantOrigin: "https://till.example:8443", wantOffers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := web.Config{PublicURL: must.Get(url.Parse(test.public))(t), Hosts: test.hosts}
			if test.proxied {
				config.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} // httptest's peer
			}
			r := httptest.NewRequest("GET", "/account/second-factor", nil)
			r.Host = test.host
			if test.tls {
				r.TLS = &tls.ConnectionState{}
			}
			if test.forwarded != "" {
				r.Header.Set("X-Forwarded-Proto", test.forwarded)
			}
			r.Header.Set("X-Forwarded-Host", "evil.example")
			r.Header.Set("Origin", "https://evil.example")
			a := passkey.AddressOf(web.New(config), r)
			if want := (passkey.Address{RPID: test.wantRPID, Origin: test.wantOrigin}); a != want || a.Offers() != test.wantOffers {
				t.Errorf("AddressOf = %+v, offers %v; want %+v, %v", a, a.Offers(), want, test.wantOffers)
			}
		})
	}
}
