package handlers_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"tollhouse/handlers"
	"tollhouse/handlers/dev"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
)

// counted is a predictable source, as that of --rand-seed.
func counted() secret.Source {
	var mu sync.Mutex
	drawn := map[string]uint64{}
	return func(sequence string, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		drawn[sequence]++
		sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(sequence), drawn[sequence]))
		copy(b, sum[:])
	}
}

// predictableHouse is a house of dev --rand-seed --clock.
func predictableHouse(t *testing.T) *devHouse {
	t.Helper()
	random := counted()
	dev := &dev.Controls{Clock: dev.NewClock(dev.ClockState{Shows: devBegins}), Faults: dev.NewFaults(), Journal: dev.NewJournal(), Control: &controller{snapshots: map[string]bool{}}}
	f := storetest.NewKeeping(t, func(o *store.Options) {
		o.Now, o.Random, o.Key = dev.Clock.Now, random, secret.NewKey(random)
	})
	return &devHouse{house: houseOver(t, f, func(c *handlers.Config) { c.Dev, c.Random = dev, random }), dev: dev}
}

// With a predictable source and a standing clock, the same requests get the same bytes.
func TestEqualRunsAnswerTheSameBytes(t *testing.T) {
	t.Parallel()
	first, second := transcript(t, predictableHouse(t)), transcript(t, predictableHouse(t))
	for i := range first {
		if first[i] != second[i] {
			t.Errorf("answer %d differs:\n%s\n%s", i, first[i], second[i])
		}
	}
	if len(first) < 20 || !strings.Contains(first[1], "200 OK") {
		t.Errorf("%d answers, the second %s, want the whole walk", len(first), first[1])
	}
}

func transcript(t *testing.T, h *devHouse) (answers []string) {
	add := func(a answer) answer {
		var b bytes.Buffer
		fmt.Fprintln(&b, a.Request.Method, a.Request.URL, a.Status)
		_ = a.Header.Write(&b)
		answers = append(answers, b.String()+a.body)
		return a
	}
	add(h.get(t, "/_dev"))
	p := wantPair(t, add(h.token(t, h.passwordForm())))
	bearer := header("Authorization", "Bearer "+p.AccessToken)
	q := wantPair(t, add(h.token(t, h.refreshForm(p.RefreshToken))))
	add(h.ask(t, "POST", "/_dev/clock", `{"advance":"1s"}`))
	for _, body := range []string{`{"id":"cus_1","name":"Ada"}`, `{"id":"cus_1","name":"Ada L"}`} {
		add(h.ask(t, "PUT", "/api/resources/customer/cus_1", body, bearer))
	}
	add(h.get(t, "/api/events", bearer))
	add(h.get(t, "/api/events?type=customer.*&limit=1", bearer))
	add(h.ask(t, "POST", "/_dev/faults", `{"match":{"path":"/api/**"},"count":1,"do":{"status":503,"headers":{"x-a":"1","X-A":"2","x-b":"3"}}}`))
	add(h.get(t, "/api/events", bearer))
	add(h.ask(t, "POST", "/_dev/faults", `{"do":{"status":500},"x":1,"y":2,"z":3}`))
	add(h.get(t, "/api/events?b=1&a=2&c=3", bearer))
	add(h.token(t, with(h.refreshForm(q.RefreshToken), "a", "1", "b", "2", "username", "x")))
	add(h.ask(t, "POST", introspectPath, `{"token":"`+p.AccessToken+`"}`, basic(h.client.ID, h.secret.Reveal())))
	add(h.get(t, "/nowhere", header("X-B", "1"), header("X-A", "2"), header("Cookie", "a=b")))
	add(h.ask(t, "POST", "/_dev/snapshot", ""))
	add(h.get(t, "/.well-known/oauth-authorization-server"))
	add(h.get(t, "/_dev/faults"))
	add(h.get(t, "/_dev/requests"))
	add(h.get(t, "/_dev/requests?path=/api/**"))
	add(h.get(t, "/_dev/state"))
	add(h.do(h.request(t, http.MethodOptions, tokenPath, nil)))
	return answers
}
