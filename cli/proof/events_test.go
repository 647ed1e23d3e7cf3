package proof

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/store/storetest/must"
)

// The account of the golden examples, whose history and answers lie with the
// tests of the handlers.
const (
	goldenAccount = "acct_5hq2m8"
	goldenFirst   = "evt_01kk9g2fnp0008yce2tg57qtan"
	goldenSecond  = "evt_01kk9kgbjj00023m5qehe9m3gk"
	goldenThird   = "evt_01kk9kgbjj000qfaggyf1b9p3e"
	goldenFourth  = "evt_01kkc2f6j70005qrp905tfd8yr"
)

var goldenDir = filepath.Join("..", "..", "handlers", "testdata", "events")

// reader reads one account's events from a running server.
type reader struct {
	*client
	access string
}

// newReader makes a person of the account and signs them in.
func newReader(t testing.TB, s *server, c credentials, name, account string) *reader {
	t.Helper()
	password := "the password of " + name
	s.createUser(name, account, password)
	r := &reader{client: s.asClient(c)}
	// Go asks for gzip by itself and unpacks it unseen.
	r.http = &http.Client{Timeout: 2 * requestWait, Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(r.http.CloseIdleConnections)
	pair, refused, err := r.grant(t.Context(), "password", "username", name, "password", password)
	if err != nil || pair.Access == "" {
		t.Fatalf("token of %s: %v %v", name, refused, err)
	}
	r.access = pair.Access
	return r
}

// ask sends a request with the reader's token; header is names and values.
func (r *reader) ask(t testing.TB, method, target string, header ...string) answer {
	t.Helper()
	a, err := r.send(t.Context(), method, target, "", append(header, "Authorization", "Bearer "+r.access)...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	return a
}

func (r *reader) get(t testing.TB, target string, header ...string) answer {
	t.Helper()
	return r.ask(t, http.MethodGet, target, header...)
}

// page reads a list.
func (r *reader) page(t testing.TB, target string) eventPage {
	t.Helper()
	a := r.get(t, target)
	if a.status != http.StatusOK {
		t.Fatalf("GET %s = %v", target, a)
	}
	var p eventPage
	decode(t, a.body, &p)
	return p
}

// TestEventsOverTheWire is the events API of the built program, over TCP: what
// the tests of the handlers show within one process is shown here to be what a
// caller gets. It ends with the server, to see how live readers are told, and
// begins again with less to keep.
//
// Promise (§2.1): the envelope has object, data, hasMore and two cursors; an event has eight
// members; there is no total
func TestEventsOverTheWire(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	eachSite(t, eventsOverTheWire)
}

func eventsOverTheWire(t *testing.T, p site) {
	s := p.serve(t, "--public-url", "http://127.0.0.1")
	creds := s.createClient("Larkspur Ledger", callbackURI)
	s.run("event", "import", fileOf(t, "history.ndjson"), "--account", goldenAccount, "--quiet")
	s.run("event", "generate", "--seed", "7", "--events", "1200", "--span", "30d", "--until", "2026-03-09T14:30:00Z", "--account", "acct_many", "--quiet")
	harriet := newReader(t, s, creds, "harriet.voss", goldenAccount)
	stranger := newReader(t, s, creds, "stranger", "acct_other")
	many := newReader(t, s, creds, "mara", "acct_many")

	t.Run("while_the_server_runs", func(t *testing.T) {
		t.Run("examples", func(t *testing.T) { t.Parallel(); goldenOverTheWire(t, harriet, stranger) })
		t.Run("refusals", func(t *testing.T) { t.Parallel(); refusalsOverTheWire(t, harriet, stranger) })
		t.Run("protocol", func(t *testing.T) { t.Parallel(); protocolOverTheWire(t, harriet) })
		t.Run("pages", func(t *testing.T) { t.Parallel(); pagesOverTheWire(t, s.in(t), many) })
		t.Run("live", func(t *testing.T) { t.Parallel(); liveOverTheWire(t, newReader(t, s.in(t), creds, "lee", "acct_live")) })
		t.Run("spellings_of_python", func(t *testing.T) { t.Parallel(); pythonOverTheWire(t, many) })
	})
	t.Run("a_stream_is_told_that_the_server_ends", func(t *testing.T) {
		stream := harriet.stream(t, "/api/events")
		stream.ready(t)
		s.in(t).stop()
		if got := stream.rest(t); !strings.HasSuffix(got, "event: end\ndata: {\"reason\":\"restart\"}\n\n") {
			t.Errorf("the stream ends with %q", got)
		}
	})
	again := p.serve(t, "--public-url", "http://127.0.0.1", "--retain", "1d")
	harriet.base, many.base = again.base, again.base
	t.Run("retained", func(t *testing.T) { retainedOverTheWire(t, harriet) })
}

// fileOf is a file beside the golden ones, named so that a command finds it from
// anywhere.
func fileOf(t testing.TB, name string) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join(goldenDir, name)))(t)
	return path
}

// goldenOverTheWire asks for the golden examples. Their files are those of the
// handlers' tests, with the Date that only a connection brings left out here.
func goldenOverTheWire(t *testing.T, harriet, stranger *reader) {
	quiet := harriet.get(t, "/api/events?limit=1").header.Get("ETag")
	for _, tt := range []struct {
		file, target string
		who          *reader
		header       []string
	}{
		{"1_retrieve", "/api/events/" + goldenSecond, harriet, nil},
		{"2_list_of_two_types_newest_first", "/api/events?type[]=customer.created&type[]=customer.updated&limit=1", harriet, nil},
		{"3_next_page", "/api/events?type%5B0%5D=customer.created&type%5B1%5D=customer.updated&limit=1&after=" + goldenSecond, harriet, nil},
		{"4_range_oldest_first", "/api/events?createdAt[between]=1773070200..1773153000&order=asc", harriet, nil},
		{"5_account_updater", "/api/events?type=account.autoupdate&createdAt[gte]=1773100000", harriet, nil},
		{"6_milliseconds_by_mistake", "/api/events?createdAt[gte]=1773070200000", harriet, nil},
		{"7_reversed_range", "/api/events?createdAt[between]=1773153000..1773070200", harriet, nil},
		{"8_unknown_parameter", "/api/events?types[]=customer.created", harriet, nil},
		{"9_another_owners_id", "/api/events/" + goldenFirst, stranger, nil},
		{"10_quiet_poll", "/api/events?limit=1", harriet, []string{"If-None-Match", quiet}},
		{"10_long_poll", "/api/events?order=asc&after=" + goldenFourth + "&wait=25", harriet, nil},
	} {
		t.Run("example_"+tt.file, func(t *testing.T) {
			t.Parallel()
			started := time.Now()
			matchGolden(t, tt.file, shownAnswer(tt.who.get(t, tt.target, tt.header...)))
			if tt.file == "10_long_poll" && time.Since(started) < 25*time.Second {
				t.Errorf("the answer came after %v, want 25 s", time.Since(started))
			}
		})
	}
	t.Run("example_12_stream", func(t *testing.T) {
		t.Parallel()
		want := goldenText(t, "12_stream")
		want, _, _ = strings.Cut(want, ": \n\n") // the heartbeat comes after 15 s
		_, frames, _ := strings.Cut(want, "\n\n")
		stream := harriet.stream(t, "/api/events?type=transaction.*,account.*", "Last-Event-ID", goldenSecond)
		got := shownAnswer(answer{status: stream.StatusCode, header: stream.Header, body: []byte(stream.take(t, len(frames)))})
		if got != want {
			t.Errorf("the stream is\n%s\nwant\n%s", got, want)
		}
	})
}

func goldenText(t testing.TB, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(fileOf(t, name+".http")))(t)
	return string(text)
}

func matchGolden(t testing.TB, name, got string) {
	t.Helper()
	if want := goldenText(t, name); got != want {
		t.Errorf("%s.http differs; got\n%s\nwant\n%s", name, got, want)
	}
}

// shownAnswer is an answer as the golden files have it.
func shownAnswer(a answer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d\n", a.status)
	var names []string
	for name := range a.header {
		if name != "X-Request-Id" && name != "Date" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range a.header[name] {
			fmt.Fprintf(&b, "%s: %s\n", name, value)
		}
	}
	return b.String() + "\n" + string(a.body)
}

// refusalsOverTheWire has one query of every code; handlers' TestListEventsRefusesQuery has
// them all.
func refusalsOverTheWire(t *testing.T, harriet, stranger *reader) {
	for _, tt := range []struct {
		name, query string
		code, param string
	}{
		{"both_cursors", "after=" + goldenFirst + "&before=" + goldenSecond, "conflicting_parameters", "before"},
		{"unknown_foreign_id", "after=ev-1", "invalid_cursor", "after"},
		{"object_Object", "createdAt=[object+Object]", "invalid_parameter", "createdAt"},
		{"twice", "createdAt[gt]=1&createdAt[gt]=1", "duplicate_parameter", "createdAt[gt]"},
		{"contradictory", "createdAt[gte]=10&createdAt[lt]=5", "invalid_range", "createdAt[gte]"},
		{"unknown", "starting_after=" + goldenFirst, "unknown_parameter", "starting_after"},
		{"broken_percent", "type=%zz", "invalid_request", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			harriet.get(t, "/api/events?"+tt.query).wantFault(t, http.StatusBadRequest, tt.code, tt.param)
		})
	}
	t.Run("a_query_past_8_KiB_is_414", func(t *testing.T) {
		t.Parallel()
		harriet.get(t, "/api/events?type="+strings.Repeat("a", 8<<10)).wantFault(t, http.StatusRequestURITooLong, "uri_too_long", "")
	})
	t.Run("a_token_in_the_query_is_not_taken", func(t *testing.T) {
		t.Parallel()
		a, err := harriet.send(t.Context(), http.MethodGet, "/api/events?access_token="+harriet.access, "")
		if err != nil || a.status != http.StatusUnauthorized || strings.Contains(a.String(), harriet.access) {
			t.Errorf("answer = %v %v, want 401", a, err)
		}
	})
	t.Run("without_a_token_401_with_a_challenge", func(t *testing.T) {
		t.Parallel()
		a, err := harriet.send(t.Context(), http.MethodGet, "/api/events", "")
		if err != nil || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("answer = %v %v", a, err)
		}
		a.wantFault(t, http.StatusUnauthorized, "unauthorized", "")
	})
	t.Run("unknown_malformed_and_anothers_are_the_same_bytes", func(t *testing.T) {
		t.Parallel()
		want := shownAnswer(stranger.get(t, "/api/events/"+noSuchEvent))
		for _, id := range []string{goldenFirst, "nonsense!", "a%00b", "%ff", strings.Repeat("a", 65), goldenFirst[:29], strings.ToUpper(goldenFirst)} {
			if got := shownAnswer(stranger.get(t, "/api/events/"+id)); got != want {
				t.Errorf("GET %s = %s, want %s", id, got, want)
			}
		}
	})
	t.Run("a_list_has_the_callers_own_and_anothers_cursor_is_a_place", func(t *testing.T) {
		t.Parallel()
		for _, query := range []string{"", "?order=asc&after=" + goldenFirst, "?type=customer.*", "?resource=cus_4tn8k2w1"} {
			if p := stranger.page(t, "/api/events"+query); len(p.Data) != 0 {
				t.Errorf("the stranger sees %d events with %q", len(p.Data), query)
			}
		}
	})
}

// wantFault holds an answer to the one shape of errors.
func (a answer) wantFault(t testing.TB, status int, code, param string) {
	t.Helper()
	var fault struct {
		Error       string
		Description string `json:"error_description"`
		Param       string
	}
	decode(t, a.body, &fault)
	if a.status != status || fault.Error != code || fault.Param != param || fault.Description == "" || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("answer = %v, want %d %s on %q", a, status, code, param)
	}
}
