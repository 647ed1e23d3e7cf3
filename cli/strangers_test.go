package cli

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
	"tollhouse/store/storetest/must"
)

// stream follows the events of an account and passes the frames on, until the test ends.
func stream(t *testing.T, s *process, token string) <-chan frame {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.text("url")+"/api/events", nil))(t)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "text/event-stream")
	answer := must.Get(http.DefaultClient.Do(r))(t)
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("the stream answers %d", answer.StatusCode)
	}
	frames := make(chan frame, 1000)
	go func() {
		defer answer.Body.Close()
		for reader := newFrameReader(answer.Body); ; {
			f, err := reader.next()
			if err != nil {
				return
			}
			f.data = slices.Clone(f.data)
			frames <- f
		}
	}()
	return frames
}

// until returns the names of the frames up to one that has the text.
func until(t *testing.T, frames <-chan frame, text string) (names []string) {
	t.Helper()
	for {
		select {
		case f := <-frames:
			if f.name == "ready" || len(f.data) == 0 {
				continue
			}
			if names = append(names, f.name); strings.Contains(string(f.data), text) {
				return names
			}
		case <-time.After(databasePatience):
			t.Fatalf("no frame with %q behind %q", text, names)
		}
	}
}

// TestNotesOfStrangers: a role without rights, which may connect to the database, reads and
// sends notifications. Servers take none of them.
//
// Promise (RFC 9110, RFC 9112): notifications of a database role without rights, and notes sent
// again, are dropped without log noise; notes tell such a role nothing
func TestNotesOfStrangers(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	args := h.args("--metrics-listen", "127.0.0.1:0")
	servers := []*process{start(t, args...), start(t, args...)}
	token := h.tokenOf(t, servers[0])
	h.importEvent(t, `"name":"first"`)
	var streams []<-chan frame
	for _, s := range servers {
		streams = append(streams, stream(t, s, token))
	}
	stranger := h.postgres.Stranger(t, h.store, "stranger", "psql")
	stranger.Exec(t, "listen tollhouse")
	h.importEventAt(t, time.Now().Add(-time.Hour), `"name":"history"`)
	h.importEvent(t, `"name":"second"`)
	for _, frames := range streams {
		if names := until(t, frames, "second"); !slices.Equal(names, []string{"backfill", ""}) {
			t.Errorf("after an import of history the frames are %q, want one backfill", names)
		}
	}
	heard := stranger.Heard(t, time.Second)
	if len(heard) == 0 || slices.ContainsFunc(heard, func(payload string) bool {
		plain, _ := base64.StdEncoding.DecodeString(payload)
		return bytes.Contains(plain, []byte("acct_a")) || strings.Contains(payload, "acct_a")
	}) {
		t.Errorf("a stranger heard %q, want payloads that say nothing", heard)
	}
	sent := 0
	send := func(payload string) {
		stranger.Exec(t, "select pg_notify('tollhouse', $1)", payload)
		sent++
	}
	for _, payload := range heard {
		send(payload)
		send(payload)
		send("A" + payload)
		send(payload[:len(payload)-1])
		send(strings.ToUpper(payload))
	}
	for i := range 300 {
		send("")
		send(strings.Repeat("x", 7_900))
		send(base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "\x05note%d", i%10)))
	}
	eventually(t, func() (bool, string) {
		_, _, page := get(t, servers[1].text("metrics"), "")
		return gauge(page, "tollhouse_store_notes_refused_total") == float64(sent), fmt.Sprintf("%v notes are counted as refused, of %d", gauge(page, "tollhouse_store_notes_refused_total"), sent)
	})
	h.importEvent(t, `"name":"third"`)
	for _, frames := range streams {
		if names := until(t, frames, "third"); !slices.Equal(names, []string{""}) {
			t.Errorf("after the notes of a stranger the frames are %q, want the event alone", names)
		}
	}
	for _, s := range servers {
		s.end()
		if n := strings.Count(s.stderr.String(), "were dropped"); n != 1 {
			t.Errorf("the log has %d warnings of %d notes, want one a minute:\n%s", n, sent, s.stderr)
		}
	}
}

// TestLocksOfStrangers: a role without rights holds a lock that a start or a job waits for.
// doctor and the refused start name the session.
//
// Promise (RFC 9110, RFC 9112): locks of a database role without rights: `doctor`, a refused start,
// `restore` and `move` name the session
func TestLocksOfStrangers(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	h := newDatabaseHouse(t)
	h.must(t, "account", "create", "acct_a")
	doctor := func() map[string]admin.Finding {
		found, _ := findings(t, "--store", h.store, "--key-file", h.key)
		return found
	}
	owner := "grant connect on database " + databaseOf(t, h.store)
	if f := doctor()["access"]; f.State != admin.StateWarning || !strings.Contains(f.Next, owner) || !strings.Contains(f.Next, "revoke connect on database "+databaseOf(t, h.store)+" from public") {
		t.Errorf("access = %+v, want a warning while PUBLIC may connect", f)
	}
	if f := doctor()["locks"]; f.State != admin.StateOK {
		t.Errorf("locks = %+v, want ok", f)
	}
	const toll = 0x746f6c6c
	for name, c := range map[string]struct {
		lock  string
		class int
		want  string
	}{
		"job_of_webhooks": {"19", toll, "the job webhooks"},
		"job_of_sweeping": {"16", toll, "the job sweep"},
		"tables":          {"2", toll, "a first start"},
		"backup":          {fmt.Sprint(int32(crc32.ChecksumIEEE([]byte("backup")))), toll + 1, "backups wait for"},
	} {
		t.Run(name, func(t *testing.T) {
			evil := h.postgres.Stranger(t, h.store, "evil", "toll\nhouse")
			defer evil.Close()
			evil.Exec(t, fmt.Sprintf("select pg_advisory_lock(%d, %s)", c.class, c.lock))
			evil.Exec(t, "select pg_advisory_lock(99)") // not ours
			f := doctor()["locks"]
			who := fmt.Sprintf(`process %d of role "evil" (application_name "toll`, evil.PID)
			if f.State != admin.StateProblem || !strings.Contains(f.Detail, who) || !strings.Contains(f.Detail, c.want) || strings.Contains(f.Detail, "\n") || !strings.Contains(f.Next, fmt.Sprintf("pg_terminate_backend(%d)", evil.PID)) {
				t.Errorf("locks = %+v, want %s and %s", f, who, c.want)
			}
		})
	}
	t.Run("all_of_them_keep_no_server_from_serving", func(t *testing.T) {
		evil := h.postgres.Stranger(t, h.store, "evil", "psql")
		defer evil.Close()
		for _, lock := range []int{2, 3, 16, 17, 18, 19} {
			evil.Exec(t, fmt.Sprintf("select pg_advisory_lock(%d, %d)", toll, lock))
		}
		s := start(t, h.args()...)
		f := doctor()["locks"]
		if f.State != admin.StateProblem || strings.Count(f.Detail, "holds") != 6 {
			t.Errorf("locks = %+v, want six", f)
		}
		s.end()
	})
	t.Run("a_start_names_who_keeps_it_out", func(t *testing.T) {
		evil := h.postgres.Stranger(t, h.store, "evil", "psql")
		defer evil.Close()
		evil.Exec(t, fmt.Sprintf("select pg_advisory_lock(%d, 1)", toll))
		who := fmt.Sprintf(`process %d of role "evil"`, evil.PID)
		if _, stderr, code := run(t, h.args()...); code == term.ExitOK || !strings.Contains(stderr, who) {
			t.Errorf("serve = exit %d, %s; want that it names %s", code, stderr, who)
		}
		if _, stderr, code := run(t, "move", "--store", h.store, filepath.Join(t.TempDir(), "data")); code != term.ExitBusy || !strings.Contains(stderr, who) {
			t.Errorf("move = exit %d, %s; want that it names %s", code, stderr, who)
		}
		if f := doctor()["locks"]; f.State != admin.StateProblem || !strings.Contains(f.Detail, who) {
			t.Errorf("locks = %+v, want %s", f, who)
		}
	})
	t.Run("as_documented_a_stranger_cannot_connect", func(t *testing.T) {
		h.postgres.Exec(t, h.store, "revoke connect on database "+databaseOf(t, h.store)+" from public")
		if f := doctor()["access"]; f.State != admin.StateOK {
			t.Errorf("access = %+v, want ok", f)
		}
	})
}

func databaseOf(t *testing.T, store string) string {
	t.Helper()
	return strings.TrimPrefix(must.Get(url.Parse(store))(t).Path, "/")
}
