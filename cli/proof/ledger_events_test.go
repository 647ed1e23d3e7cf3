package proof

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
)

const resourcesPerWriter = 3

// change is one that a resource writer asked for.
type change struct {
	resource, eventType string
	mark                string // stands in the snapshot; none in a deletion
	eventID             string // as acknowledged; "" while it is not
}

// resourceWriter changes customers that nobody else touches.
type resourceWriter struct {
	history *history
	names   []string
	exists  map[string]bool
	count   int
	number  int
}

func newResourceWriter(h *history, number int) *resourceWriter {
	w := &resourceWriter{history: h, number: number, exists: map[string]bool{}}
	for i := range resourcesPerWriter {
		w.names = append(w.names, fmt.Sprintf("cus_%d_%d", number, i))
	}
	return w
}

func (w *resourceWriter) prepare(context.Context, *ledger) error { return nil }

func (w *resourceWriter) write(ctx context.Context, l *ledger, r *rand.Rand) error {
	w.count++
	c := change{resource: w.names[r.IntN(len(w.names))], mark: fmt.Sprintf("%d-%d", w.number, w.count)}
	method, body := http.MethodPut, fmt.Sprintf(`{"displayName":"Customer of %d","notes":%q,"city":"City %d"}`, w.number, c.mark, r.IntN(3))
	c.eventType = "customer.updated"
	switch chance := r.IntN(10); {
	case !w.exists[c.resource]:
		c.eventType = "customer.created"
	case chance == 0:
		method, body, c.mark, c.eventType = http.MethodDelete, "", "", "customer.deleted"
	case chance < 5:
		method, body = http.MethodPatch, fmt.Sprintf(`{"notes":%q}`, c.mark)
	}
	a, err := l.call(ctx, l.reader, method, "/api/resources/customer/"+c.resource, body)
	switch {
	case err != nil:
		w.history.lost(c)
		return err
	case l.refusedBusy(a):
		return nil
	case a.status/100 != 2 || a.header.Get("Tollhouse-Event") == "":
		return fmt.Errorf("%s %s: %s", method, c.resource, a)
	}
	l.acknowledge()
	c.eventID = a.header.Get("Tollhouse-Event")
	w.exists[c.resource] = c.eventType != "customer.deleted"
	w.history.acknowledged(c)
	return nil
}

// check compares each customer with the last event about it; that the events
// are right has been found before.
func (w *resourceWriter) check(ctx context.Context, l *ledger) error {
	for _, name := range w.names {
		want, there := w.history.snapshot(name)
		w.exists[name] = there
		a, err := l.call(ctx, l.reader, http.MethodGet, "/api/resources/customer/"+name, "")
		if err != nil {
			return err
		}
		if !there {
			if a.status != http.StatusNotFound {
				return l.missing("%s has no event, or was deleted by its last: %s, want 404", name, a)
			}
			continue
		}
		var is map[string]any
		if err := json.Unmarshal(a.body, &is); err != nil || a.status != http.StatusOK || !sameJSON(is, want) {
			return l.missing("%s is %s, want as its last event says %v", name, a, want)
		}
	}
	return nil
}

// replay has nothing to try: a change may be made twice.
func (w *resourceWriter) replay(context.Context, *ledger) error { return nil }

// history is what the event log has to tell: every acknowledged change once,
// in order, each made of the one before it.
type history struct {
	mu      sync.Mutex
	expect  map[string][]change // by resource, acknowledged since the last reading
	pending map[string]change   // by resource, lost since the last reading
	objects map[string]map[string]any
	seen    sequence // all that was read, oldest first
}

// sequence is a list of events of which only the end and a hash are kept.
type sequence struct {
	count  int
	newest string
	sum    uint64
}

func (s *sequence) add(id string) {
	s.count, s.newest = s.count+1, id
	s.sum = maphash.String(liveSeed, id) ^ bits.RotateLeft64(s.sum, 1)
}

func (h *history) init() {
	h.expect, h.pending, h.objects = map[string][]change{}, map[string]change{}, map[string]map[string]any{}
}

func (h *history) acknowledged(c change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expect[c.resource] = append(h.expect[c.resource], c)
}

func (h *history) lost(c change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pending[c.resource] = c
}

func (h *history) snapshot(resource string) (map[string]any, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	object, there := h.objects[resource]
	return object, there
}

// read goes on where it left off and holds each new event to what was written.
func (h *history) read(ctx context.Context, l *ledger) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := l.eachEvent(ctx, l.reader, h.seen.newest, "", func(e event) error {
		if e.ID <= h.seen.newest {
			return fmt.Errorf("event %s comes after %s in the list", e.ID, h.seen.newest)
		}
		h.seen.add(e.ID)
		return h.take(e, l)
	})
	if err != nil {
		return err
	}
	for resource, missing := range h.expect {
		if len(missing) > 0 {
			l.lost.Add(int64(len(missing)))
			return fmt.Errorf("%d acknowledged events about %s are lost, the first is %s", len(missing), resource, missing[0].eventID)
		}
	}
	clear(h.pending) // what was lost and is not there never happened
	return nil
}

// take matches an event with the next change of its resource that was
// acknowledged, or, when all of these are there, with the one that was lost.
func (h *history) take(e event, l *ledger) error {
	c, known := h.pending[e.Resource]
	if expected := h.expect[e.Resource]; len(expected) > 0 {
		c, known = expected[0], true
		h.expect[e.Resource] = expected[1:]
	} else {
		delete(h.pending, e.Resource)
	}
	mark, _ := e.Data.Object["notes"].(string)
	if !known || e.Type != c.eventType || c.eventID != "" && c.eventID != e.ID || c.mark != "" && c.mark != mark {
		return l.missing("event %s %s about %s, marked %q: nobody wrote it there; next was to be %+v", e.ID, e.Type, e.Resource, mark, c)
	}
	return h.chain(e)
}

// chain holds an event to the one before it: with previousAttributes merged in,
// its object is the object of that one.
func (h *history) chain(e event) error {
	before, there := h.objects[e.Resource]
	switch _, action, _ := strings.Cut(e.Type, "."); {
	case action == "created" && (there || e.Data.Previous != nil):
		return fmt.Errorf("event %s creates %s, which was there", e.ID, e.Resource)
	case action == "deleted" && !sameJSON(before, e.Data.Object):
		return fmt.Errorf("event %s deletes %v, but it was %v", e.ID, e.Data.Object, before)
	case action == "updated" && !sameJSON(before, mergePatch(e.Data.Object, e.Data.Previous)):
		return fmt.Errorf("event %s makes %v of %v, which was %v", e.ID, e.Data.Object, e.Data.Previous, before)
	case action == "deleted":
		delete(h.objects, e.Resource)
		return nil
	}
	h.objects[e.Resource] = e.Data.Object
	return nil
}

// readAll lists everything from the beginning, by time and by type, and wants
// the same events both times: those that were read bit by bit, each once.
func (h *history) readAll(ctx context.Context, l *ledger) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, query := range []string{"", "type[]=customer.created&type[]=customer.updated&type[]=customer.deleted&"} {
		var listed sequence
		err := l.eachEvent(ctx, l.reader, "", query, func(e event) error {
			listed.add(e.ID)
			return nil
		})
		if err != nil {
			return err
		}
		if listed != h.seen {
			return l.missing("the list by %q has %d events; want the %d that were read after each kill, in their order", query, listed.count, h.seen.count)
		}
	}
	return nil
}
