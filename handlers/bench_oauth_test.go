package handlers_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

// flow is a use of the issuer over HTTP.
type flow struct {
	name   string
	hashes int // passwords that it must hash
	// begin prepares one flow and returns the requests of it, whose time counts.
	begin func(t testing.TB, h *house) (requests func())
}

var flows = []flow{
	{"PasswordGrant", 1, func(t testing.TB, h *house) func() {
		return func() { wantPair(t, h.token(t, h.passwordForm())) }
	}},
	{"CodeGrant", 0, func(t testing.TB, h *house) func() {
		code := h.allowed(t, h.client)
		return func() { wantPair(t, h.token(t, h.codeForm(code))) }
	}},
	{"RefreshGrant", 0, func(t testing.TB, h *house) func() {
		// The second rotation of a family, which is like every later one.
		first := wantPair(t, h.token(t, h.codeForm(h.allowed(t, h.client))))
		second := wantPair(t, h.token(t, h.refreshForm(first.RefreshToken)))
		return func() { wantPair(t, h.token(t, h.refreshForm(second.RefreshToken))) }
	}},
	{"Walk", 1, func(t testing.TB, h *house) func() {
		b := h.browser(t)
		return func() { b.walk(t, b.follow(t, b.submit(t, b.get(t, h.authURL()), rightPassword...))) }
	}},
	{"WalkOfOneSignedIn", 0, func(t testing.TB, h *house) func() {
		b := h.signedIn(t, h.user)
		return func() { b.walk(t, b.get(t, h.authURL())) }
	}},
}

// walk goes from the consent screen to the tokens.
func (b *browser) walk(t testing.TB, consent answer) {
	t.Helper()
	code := callback(t, b.submit(t, consent, "decision", "allow"), http.StatusSeeOther).Query().Get("code")
	wantPair(t, b.h.token(t, b.h.codeForm(code)))
}

// BenchmarkFlow times the requests of a flow over a store on disk, alternating with its
// floors: one Argon2id hash with the same parameters for each password, and as many
// commits of the same bytes, or bare syncs of a page, as the flow makes durable.
//
//	go test ./handlers -run '^$' -bench Flow -benchtime 1x
func BenchmarkFlow(b *testing.B) {
	for _, f := range flows {
		b.Run(f.name, func(b *testing.B) {
			commits := f.tape(b)
			floors := storetest.NewFloor(b)
			b.Run("commits", func(b *testing.B) { f.compare(b, func() { floors.Commit(b, commits) }) })
			if f.hashes == 0 {
				b.Run("syncs", func(b *testing.B) { f.compare(b, func() { floors.Sync(b, commits) }) })
				return
			}
			b.Run("hash", func(b *testing.B) { f.compare(b, func() {}) })
		})
	}
}

// tape returns what the flow commits.
func (f flow) tape(b *testing.B) [][]storetest.Record {
	b.Helper()
	fixture, tape := storetest.NewTaped(b)
	h := &house{Fixture: fixture, log: &journal{}, account: "acct_larkspur"}
	h.open(h.Store)
	h.client, h.secret = h.Client(b)
	h.user = h.User(b, "mara", h.account)
	requests := f.begin(b, h)
	tape.Commits = nil
	requests()
	return tape.Commits
}

// How many flows are timed: the median of so many strays little.
const (
	hashFlowsMin = 100
	flowsMin     = 1000
)

func (f flow) compare(b *testing.B, durable func()) {
	b.Helper()
	h := houseOnDisk(b)
	clock := &meter{next: h.public}
	h.public = clock
	hasher := secret.NewHasher()
	stored := must.Get(hasher.Hash(context.Background(), secret.Caller{}, storetest.Password))(b)
	ours := func() time.Duration {
		requests := f.begin(b, h)
		clock.took = 0
		requests()
		return clock.took
	}
	floor := storetest.Timed(func() {
		for range f.hashes {
			if _, err := hasher.Verify(context.Background(), secret.Caller{}, stored, storetest.Password); err != nil {
				b.Fatal(err)
			}
		}
		durable()
	})
	atLeast := flowsMin
	if f.hashes > 0 {
		atLeast = hashFlowsMin
	}
	var pairs storetest.Pairs
	for b.Loop() {
		for range atLeast / 2 {
			pairs.Take(ours, floor)
		}
	}
	pairs.Report(b, "ours", "floor")
}

// meter adds up the time in which a handler works.
type meter struct {
	next http.Handler
	took time.Duration
}

func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	m.next.ServeHTTP(w, r)
	m.took += time.Since(began)
}

// allowed gives a client a code of the house's user, as a consent decision does.
func (h *house) allowed(t testing.TB, c store.Client) string {
	t.Helper()
	code := must.Get(h.Allow(context.Background(), store.Consent{
		Client: c, User: h.user, RedirectURI: storetest.CallbackURI, Scope: store.ScopeUnstated,
		Ticket: secret.Text(nil), TicketEnds: h.Now().Add(time.Minute),
	}))(t)
	return code.Reveal()
}
