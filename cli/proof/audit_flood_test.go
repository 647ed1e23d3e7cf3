package proof

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

const (
	floodLasts, floodLastsLong = 8 * time.Second, 2 * time.Minute
	floodConnections           = 16
	floodLinesMax              = 250 // a minute
	signInEvery                = 300 * time.Millisecond
)

// auditShown is what a test reads of an audit line.
type auditShown struct {
	What, Reason, Source string
	RequestID            string `json:"request_id"`
	Count                int
}

// TestAFloodLeavesTheAuditRecord: strangers with all addresses of an IPv6 /48 neither fill
// the record nor keep others out of it. Every refusal is in it, by itself or in a number,
// and so is every sign-in that succeeded during the flood.
//
// Promise (Credentials, memory, connections): filling the audit record from all addresses of an
// IPv6 /48, or with the names of 10,000 users; every refusal is in a line or a number, and every
// accepted sign-in is recorded
func TestAFloodLeavesTheAuditRecord(t *testing.T) {
	must.SkipInShort(t)
	t.Run("of_the_token_endpoint", func(t *testing.T) {
		floodAudit(t, "refused", func(*flooder) (string, url.Values) {
			return "/oauth/v2/token", url.Values{"grant_type": {"password"}, "client_id": {"nobody"}, "client_secret": {"wrong"}, "username": {"x"}, "password": {"x"}}
		})
	})
	t.Run("of_the_sign_in_form", func(t *testing.T) {
		floodAudit(t, "login_refused", func(f *flooder) (string, url.Values) {
			return "/login", url.Values{"form_token": {f.formToken}, "username": {fmt.Sprint("stranger", rand.Uint64())}, "password": {"wrong wrong wrong"}}
		})
	})
}

func floodAudit(t *testing.T, what string, request func(*flooder) (path string, form url.Values)) {
	dir := t.TempDir()
	s := startServe(t, dir, "--trusted-proxies", "127.0.0.0/8")
	s.createUser(odile, "acct_a", odilePassword)
	if id, err := s.newFlooder(t).signIn(t.Context()); err != nil || id == "" {
		t.Fatalf("the sign-in before the flood: %q, %v", id, err)
	}
	lasts := floodLasts
	if must.Long() {
		lasts = floodLastsLong
	}
	ctx, stop := context.WithTimeout(t.Context(), lasts)
	defer stop()
	var refused, judged atomic.Int64
	var all sync.WaitGroup
	for range floodConnections {
		f := s.newFlooder(t)
		all.Go(func() {
			for ctx.Err() == nil {
				path, form := request(f)
				res, err := f.post(ctx, path, form, addressIn48())
				if err != nil {
					continue // the end
				}
				refused.Add(1)
				if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusOK {
					judged.Add(1)
				}
			}
		})
	}
	var signedIn []string
	tries := 0
	for ; ctx.Err() == nil; time.Sleep(signInEvery) {
		tries++
		if id, err := s.newFlooder(t).signIn(ctx); err == nil && id != "" {
			signedIn = append(signedIn, id)
		}
	}
	all.Wait()
	s.stop()
	lines, counted, recorded := 0, 0, map[string]bool{}
	for _, line := range bytes.Split(bytes.TrimSpace(command(t, "", "audit", "--json", "--data", dir)), []byte("\n")) {
		var l auditShown
		decode(t, line, &l)
		switch {
		case l.What == "login":
			recorded[l.RequestID] = true
		case l.What == what:
			lines, counted = lines+1, counted+max(l.Count, 1)
		}
	}
	found := 0
	for _, id := range signedIn {
		if recorded[id] {
			found++
		}
	}
	t.Logf("%d requests in %v, %d judged: %d lines about %d; %d of %d sign-ins succeeded, %d of them are recorded",
		refused.Load(), lasts, judged.Load(), lines, counted, len(signedIn), tries, found)
	minutes := int(lasts/time.Minute) + 1
	if lines == 0 || lines > minutes*floodLinesMax {
		t.Errorf("the flood left %d lines, want some and at most %d", lines, minutes*floodLinesMax)
	}
	if n := int64(counted); n < judged.Load() || n > judged.Load()+floodConnections {
		t.Errorf("the lines are about %d refusals, want all %d", n, judged.Load())
	}
	if found != len(signedIn) {
		t.Errorf("%d of %d sign-ins are recorded, want all", found, len(signedIn))
	}
	must.Figure(t, "lines_per_minute", float64(lines)/max(lasts.Minutes(), 1))
	must.Figure(t, "refusals", judged.Load())
	must.Figure(t, "sign_ins", len(signedIn))
	must.Figure(t, "sign_ins_recorded", found)
}

// addressIn48 is one of the addresses of 2001:db8::/48.
func addressIn48() string {
	address := netip.MustParseAddr("2001:db8::").As16()
	for i := 6; i < len(address); i++ {
		address[i] = byte(rand.Uint32())
	}
	return netip.AddrFrom16(address).String()
}

// flooder is a browser with the sign-in form open, behind a proxy that names its address.
type flooder struct {
	base, formToken string
	http            *http.Client
}

func (s *server) newFlooder(t *testing.T) *flooder {
	t.Helper()
	c := must.Get(newVisitorClient(&http.Transport{MaxIdleConnsPerHost: 1}))(t)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(c.CloseIdleConnections)
	f := &flooder{base: s.base, http: c}
	must.Do(t, f.open(t.Context()))
	return f
}

// open loads the sign-in form.
func (f *flooder) open(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, f.base+"/login", nil)
	if err != nil {
		return err
	}
	res, err := f.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	page, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(page), `name="form_token" value="`)
	f.formToken, _, _ = strings.Cut(rest, `"`)
	return nil
}

func (f *flooder) post(ctx context.Context, path string, form url.Values, source string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Forwarded-For", source)
	if path == "/login" {
		r.Header.Set("Origin", f.base)
	}
	res, err := f.http.Do(r)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res, err
}

// signIn signs in, and returns the id of the request if it succeeded.
func (f *flooder) signIn(ctx context.Context) (id string, err error) {
	res, err := f.post(ctx, "/login", url.Values{"form_token": {f.formToken}, "username": {odile}, "password": {odilePassword}}, "198.51.100.7")
	if err != nil || res.StatusCode != http.StatusSeeOther {
		return "", err
	}
	return res.Header.Get("X-Request-Id"), nil
}
