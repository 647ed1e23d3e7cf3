package api

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollhouse/handlers/web"
)

const (
	WebhookTestsMax    = 10 // a minute and endpoint
	webhookTestsWindow = time.Minute
	webhookTestersMax  = 1 << 12 // endpoints
	WebhookTestsAtOnce = 2       // of an account
)

// webhookTests bounds the tests of each endpoint, since a test is a request that its
// sender chooses the address of. It is safe for concurrent use.
type webhookTests struct {
	now func() time.Time

	mu   sync.Mutex
	last *lru.Cache[string, []time.Time] // by id, the latest tests
	// sending are those of each account, and of each platform client for an account: a test
	// waits for its receiver, and holds a slot of the sender meanwhile.
	sending *atOnce
}

func newWebhookTests(now func() time.Time) *webhookTests {
	return &webhookTests{now: now, last: web.NewLRU[string, []time.Time](webhookTestersMax), sending: newAtOnce(WebhookTestsAtOnce)}
}

// take admits a test, or returns how long to wait. A clock that was set back admits it.
func (t *webhookTests) take(id string) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	var recent []time.Time
	last, _ := t.last.Get(id)
	for _, at := range last {
		if age := now.Sub(at); age >= 0 && age < webhookTestsWindow {
			recent = append(recent, at)
		}
	}
	if len(recent) == WebhookTestsMax {
		return webhookTestsWindow - now.Sub(recent[0])
	}
	t.last.Add(id, append(recent, now))
	return 0
}
