package webhook

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// full returns an endpoint and a delivery with every field set.
func full() (Endpoint, Delivery) {
	at := time.UnixMilli(1773070200123).UTC()
	p, q := record.NewPosition(1773070200123, 1, [8]byte{1}), record.NewPosition(1773070200124, 1, [8]byte{2})
	d := Delivery{
		Position: p, Event: "evt_elsewhere", Type: "customer.created", State: Retrying, Attempts: 3, Refused: 2, Step: 1, Status: 500, Error: "response", Body: "oops",
		Took: 5 * time.Millisecond, LastAt: at, NextAt: at, Blocked: time.Hour, Probed: time.Minute, turn: 9,
	}
	e := Endpoint{
		key: secret.ID{7}, ID: formatID(secret.ID{7}), Account: "acct_1", URL: "https://example.com/", Description: "orders", Types: []string{"customer.*"}, Order: None,
		Disabled: Disabled{By: BySystem, Reason: Failing, At: at}, Cursor: p, born: q, Secrets: []Secret{{CreatedAt: at, sealed: "a"}, {CreatedAt: at, ExpiresAt: at, sealed: "b"}},
		Owner: Owner{Client: "client", User: "usr_1", Family: secret.ID{3}, OneAccount: true, ClientGeneration: 1, UserGeneration: 2}, Revision: 4, CreatedAt: at, turn: 5, lines: 6, Parked: 7, Dead: 8,
		Trouble: Trouble{Since: at, For: time.Second, Attempts: 2}, Last: Attempt{At: at, Status: 503, Error: "response"}, Head: &d,
		Gap: Gap{After: p, Oldest: q, At: at, Pending: true},
	}
	return e, d
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	e, d := full()
	plain := Endpoint{key: e.key, ID: e.ID, Account: e.Account, Types: []string{"*"}, Order: Strict}
	for _, want := range []Endpoint{e, plain} {
		b := encodeEndpoint(want)
		if got, err := decodeEndpoint(want.Account, want.key, b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("an endpoint comes back as\n%+v, %v, want\n%+v", got, err, want)
		}
		for n := range b {
			if _, err := decodeEndpoint(want.Account, want.key, b[:n]); !errors.Is(err, kv.ErrCorrupt) {
				t.Fatalf("the first %d bytes of an endpoint: %v", n, err)
			}
		}
	}
	b := encodeLine(d)
	if got, err := decodeLine(b); err != nil || got != d {
		t.Errorf("a delivery comes back as\n%+v, %v, want\n%+v", got, err, d)
	}
	if _, err := decodeLine(append(b, 0)); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("a delivery with a byte more: %v", err)
	}
	in := Instance{Held: true, Since: e.CreatedAt, Reason: HeldRestored, Endpoints: 2, Changes: 3, fence: 4}
	if got, err := decodeInstance(encodeInstance(in)); err != nil || got != in {
		t.Errorf("the instance comes back as %+v, %v, want %+v", got, err, in)
	}
}

// TestSealedSecretOpensForItsEndpointOnly: who can write the store cannot have an endpoint
// sign with the secret of another.
func TestSealedSecretOpensForItsEndpointOnly(t *testing.T) {
	t.Parallel()
	w := New(nil, Options{Now: time.Now, Key: secret.NewKey(nil)})
	own, other := Endpoint{ID: formatID(secret.ID{1})}, Endpoint{ID: formatID(secret.ID{2})}
	own.Secrets = []Secret{w.seal(own.ID, secret.NewWebhookSecret(nil))}
	other.Secrets = own.Secrets
	if _, ok := w.Open(&own); !ok {
		t.Error("it does not open for its endpoint")
	}
	if _, ok := w.Open(&other); ok {
		t.Error("it opens for another endpoint")
	}
}

func TestVerifierFindsWhatDoesNotAgree(t *testing.T) {
	t.Parallel()
	e, d := full()
	e.Parked, e.Dead = 1, 0
	endpoint := encodeEndpoint(e)
	aside := func(v *Verifier) error { return v.Aside(e.key, d.Position, encodeLine(d)) }
	listed := func(v *Verifier) error { return v.Listed(e.key, []byte(e.Account)) }
	whole := func(v *Verifier) error { return v.Endpoint(e.Account, e.key, endpoint) }
	for name, tt := range map[string]struct {
		records []func(*Verifier) error
		fits    bool
	}{
		"all":                       {[]func(*Verifier) error{aside, listed, whole}, true},
		"an_event_aside_is_missing": {[]func(*Verifier) error{listed, whole}, false},
		"the_endpoint_is_missing":   {[]func(*Verifier) error{listed}, false},
		"it_is_not_listed":          {[]func(*Verifier) error{aside, whole}, false},
		"another_key": {[]func(*Verifier) error{func(v *Verifier) error {
			return v.Aside(e.key, record.LastPosition, encodeLine(d))
		}}, false},
		"a_delivery_that_is_none": {[]func(*Verifier) error{func(v *Verifier) error { return v.Line(encodeLine(d)) }}, false},
	} {
		v := NewVerifier()
		var err error
		for _, check := range tt.records {
			err = errors.Join(err, check(v))
		}
		if err = errors.Join(err, v.Finish()); (err == nil) != tt.fits || err != nil && !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: %v, want it to fit: %v", name, err, tt.fits)
		}
	}
}
