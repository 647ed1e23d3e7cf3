package webhooks_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"tollhouse/cli/webhooks"
	"tollhouse/store/secret"
	"tollhouse/store/storetest/must"
)

var (
	newerSecret = []byte("0123456789abcdef0123456789abcdef")
	olderSecret = []byte("fedcba9876543210fedcba9876543210")
)

func tokenOf(key []byte) secret.Token {
	token, ok := secret.ParseWebhookSecret("whsec_" + base64.StdEncoding.EncodeToString(key))
	if !ok {
		panic("not a webhook secret")
	}
	return token
}

func message(url string) *webhooks.Message {
	return &webhooks.Message{
		URL: url, ID: "evt_01", Body: []byte(`{"id":"evt_01"}`), Time: time.Now(), Secrets: []secret.Token{tokenOf(newerSecret), tokenOf(olderSecret)},
		Endpoint: "wep_01", Attempt: 3, Version: "1.2.3",
	}
}

// Promise (Webhooks): the request and its signature; what counts as accepted
func TestRequest(t *testing.T) {
	t.Parallel()
	t.Run("headers", func(t *testing.T) {
		t.Parallel()
		m := message("https://Example.com:8443/a%2Fb?q")
		m.Time, m.Gap = time.Unix(1_700_000_000, 999_999_999), "evt_a..evt_b"
		r := must.Get(m.Request(t.Context()))(t)
		sign := func(key []byte) string {
			mac := hmac.New(sha256.New, key)
			mac.Write([]byte(`evt_01.1700000000.{"id":"evt_01"}`))
			return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		}
		for name, want := range map[string]string{
			"Content-Type": "application/json", "User-Agent": "tollhouse-webhooks/1.2.3",
			"webhook-id": "evt_01", "webhook-timestamp": "1700000000", "webhook-signature": sign(newerSecret) + " " + sign(olderSecret),
			"tollhouse-endpoint": "wep_01", "tollhouse-attempt": "3", "tollhouse-gap": "evt_a..evt_b",
		} {
			if got := strings.Join(r.Header[name], "|"); got != want {
				t.Errorf("header %s = %q, want %q", name, got, want)
			}
		}
		if len(r.Header) != 9 || r.Header["Idempotency-Key"] == nil || len(r.Header["Idempotency-Key"]) > 0 {
			t.Errorf("headers = %v, want eight that are sent", r.Header)
		}
		if r.Method != http.MethodPost || r.ContentLength != int64(len(m.Body)) || r.Host != "Example.com:8443" || r.URL.RequestURI() != "/a%2Fb?q" {
			t.Errorf("request = %s %s %s with %d bytes", r.Method, r.Host, r.URL.RequestURI(), r.ContentLength)
		}
	})
	t.Run("what_a_url_cannot_contain_is_sent_percent_encoded", func(t *testing.T) {
		t.Parallel()
		for given, want := range map[string]string{
			"/hook?q=Åland":               "/hook?q=%C3%85land",
			"/hook/Å?q=✅&r=日本":            "/hook/%C3%85?q=%E2%9C%85&r=%E6%97%A5%E6%9C%AC",
			"/a%2Fb/Å?x=%C3%85&y=Å":       "/a%2Fb/%C3%85?x=%C3%85&y=%C3%85", // what is encoded stays so, once
			"/hook?a=1&b[]=2&c=x+y;z=%20": "/hook?a=1&b[]=2&c=x+y;z=%20",
			`/hook?a="<>\^` + "`{|}":      "/hook?a=%22%3C%3E%5C%5E%60%7B%7C%7D",
			"/hook?a=100%&b=%zz":          "/hook?a=100%&b=%zz", // which no one can read, but is the receiver's
			"/hook?a=b?c=/d:e@f!$'()*,~-": "/hook?a=b?c=/d:e@f!$'()*,~-",
			"?å":                          "/?%C3%A5",
			"/hook?a\u202eb":              "/hook?a%E2%80%AEb",
		} {
			var arrived string
			in := newReceiver(t, func(_ http.ResponseWriter, r *http.Request) { arrived = r.RequestURI })
			if a := send(t, webhooks.ClientOptions{Rules: rules(t, "127.0.0.1")}, in.URL+given); a.Outcome != webhooks.Accepted || arrived != want {
				t.Errorf("%s arrived as %s (%v), want %s", given, arrived, a, want)
			}
		}
	})
	t.Run("openapi_describes_the_headers", func(t *testing.T) {
		t.Parallel()
		var api struct {
			Webhooks struct {
				Event struct {
					Post struct {
						Parameters []struct {
							Name     string
							Required bool
						}
					}
				}
			}
		}
		must.Do(t, json.Unmarshal(must.Get(os.ReadFile("../../handlers/api/openapi.json"))(t), &api))
		m := message("https://example.com")
		always := must.Get(m.Request(t.Context()))(t)
		m.Gap = "evt_a..evt_b"
		sent := must.Get(m.Request(t.Context()))(t).Header
		described := api.Webhooks.Event.Post.Parameters
		for _, p := range described {
			if _, found := always.Header[p.Name]; found != p.Required || sent[p.Name] == nil {
				t.Errorf("the header %s is sent always: %t, with a gap: %q, described as required: %t", p.Name, found, sent[p.Name], p.Required)
			}
		}
		if n := len(sent) - len([]string{"Content-Type", "User-Agent", "Idempotency-Key"}); len(described) != n {
			t.Errorf("%d headers are described, %d are sent", len(described), n)
		}
	})
	t.Run("without_endpoint_and_gap", func(t *testing.T) {
		t.Parallel()
		m := message("https://example.com")
		m.Endpoint = ""
		r := must.Get(m.Request(t.Context()))(t)
		for _, name := range []string{"tollhouse-endpoint", "tollhouse-gap"} {
			if _, found := r.Header[name]; found {
				t.Errorf("header %s = %q, want none", name, r.Header[name])
			}
		}
	})
	t.Run("the_library_of_standard_webhooks_accepts_each_live_secret", func(t *testing.T) {
		t.Parallel()
		m := message("https://example.com")
		r := must.Get(m.Request(t.Context()))(t)
		headers := http.Header{} // as a receiver gets them
		for name, values := range r.Header {
			headers[http.CanonicalHeaderKey(name)] = values
		}
		for _, token := range m.Secrets {
			wh := must.Get(standardwebhooks.NewWebhook(token.Reveal()))(t)
			if err := wh.Verify(m.Body, headers); err != nil {
				t.Errorf("Verify = %v, want nil", err)
			}
			if err := wh.Verify(append(slices.Clone(m.Body), ' '), headers); err == nil {
				t.Error("Verify of another body = nil, want an error")
			}
		}
	})
}
