package desk

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"tollhouse/handlers/web"
	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/views"
)

const (
	sessionsChangedMax = 1 << 10
	onceKeptMax        = 4096
	onceKeptFor        = time.Hour
)

// changes holds when sessions last made a change at the desk.
type changes struct {
	at *lru.Cache[secret.Hash, time.Time]
}

func newChanges() *changes {
	return &changes{at: web.NewLRU[secret.Hash, time.Time](sessionsChangedMax)}
}

func (c *changes) set(session secret.Token, at time.Time) { c.at.Add(session.Hash(), at) }

func (c *changes) get(session secret.Token) (time.Time, bool) { return c.at.Get(session.Hash()) }

// onceDone is what a form has made, and its address.
type onceDone struct {
	made views.Made
	href string
}

// onceKept holds the forms that made something, so that sending one again makes nothing.
type onceKept struct {
	mu   sync.Mutex
	now  func() time.Time
	done *lru.Cache[secret.Hash, onceEntry]
}

type onceEntry struct {
	onceDone
	at time.Time
}

func newOnceKept(now func() time.Time) *onceKept {
	return &onceKept{now: now, done: web.NewLRU[secret.Hash, onceEntry](onceKeptMax)}
}

// onceKey keeps the forms of different operators apart.
func onceKey(u store.User, once string) secret.Hash {
	return secret.HashOf(u.Subject() + "\x00" + once)
}

// find returns what a form has made.
func (o *onceKept) find(u store.User, once string) (done onceDone, repeated bool) {
	if once == "" {
		return onceDone{}, false
	}
	entry, known := o.done.Get(onceKey(u, once))
	return entry.onceDone, known && o.now().Sub(entry.at) < onceKeptFor
}

// begin reserves a form, or returns what it has made.
func (o *onceKept) begin(u store.User, once string) (done onceDone, repeated bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if done, repeated = o.find(u, once); !repeated {
		o.End(u, once, onceDone{})
	}
	return done, repeated
}

func (o *onceKept) End(u store.User, once string, done onceDone) {
	o.done.Add(onceKey(u, once), onceEntry{done, o.now()})
}

func (o *onceKept) forget(u store.User, once string) { o.done.Remove(onceKey(u, once)) }
