package proof

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	liveMax  = 4  // pairs of a revoker before it revokes one
	endedMax = 32 // revoked pairs that are tried after every kill, by chance
)

// revoker obtains tokens and revokes them.
type revoker struct {
	codeWriter
	live   []tokens
	unsure []tokens // their revocation was sent, and the answer was lost
	ended  []tokens
}

func (w *revoker) write(ctx context.Context, l *ledger, r *rand.Rand) error {
	if len(w.live) == 0 || len(w.live) < liveMax && r.IntN(2) == 0 {
		return w.issue(ctx, l)
	}
	last := len(w.live) - 1
	p := w.live[last]
	token := p.Refresh
	if r.IntN(2) == 0 { // an access token ends alone
		token, p.Refresh = p.Access, ""
	}
	a, err := l.revoke(ctx, token)
	switch {
	case err != nil:
		w.live, w.unsure = w.live[:last], append(w.unsure, p)
		return err
	case l.refusedBusy(a):
		return nil
	case a.status != http.StatusOK:
		return fmt.Errorf("revocation: %s", a)
	}
	l.acknowledge()
	w.live, w.ended = w.live[:last], keep(w.ended, p, endedMax)
	return nil
}

func (w *revoker) issue(ctx context.Context, l *ledger) error {
	c, err := w.obtain(ctx, l, true)
	if err != nil || c.value == "" {
		return err
	}
	l.acknowledge()
	p, a, err := w.redeem(ctx, l, c)
	switch {
	case err != nil:
		return err
	case l.refusedBusy(a):
		return nil
	case p.Access == "":
		return fmt.Errorf("redemption of a fresh code: %s", a)
	}
	l.acknowledge()
	w.live = append(w.live, p)
	return nil
}

// revoke is RFC 7009.
func (c *client) revoke(ctx context.Context, token string) (answer, error) {
	form := url.Values{"client_id": {c.ID}, "client_secret": {c.Secret}, "token": {token}}
	return c.send(ctx, http.MethodPost, "/oauth/v2/revoke", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

func (w *revoker) check(ctx context.Context, l *ledger) error {
	for _, p := range w.unsure {
		if a, err := l.revoke(ctx, cmp.Or(p.Refresh, p.Access)); err != nil || a.status != http.StatusOK {
			return fmt.Errorf("a revocation whose answer was lost, sent again: %s, %w", a, err)
		}
		w.ended = keep(w.ended, p, endedMax)
	}
	w.unsure = nil
	for _, p := range w.live {
		if live, err := l.lives(ctx, p.Access); err != nil || !live {
			return l.missing("an acknowledged access token is dead (%v)", err)
		}
	}
	return w.replay(ctx, l)
}

// replay tries revoked tokens.
func (w *revoker) replay(ctx context.Context, l *ledger) error {
	for _, p := range w.ended {
		l.replayed.Add(1)
		if live, err := l.lives(ctx, p.Access); err != nil || live {
			return l.accepted("a revoked access token lives (%v)", err)
		}
		if p.Refresh == "" {
			continue
		}
		_, a, err := l.grant(ctx, "refresh_token", "refresh_token", p.Refresh)
		if err != nil {
			return err
		}
		if !a.refused(http.StatusBadRequest, "invalid_grant") {
			return l.accepted("a revoked refresh token: status %d, want 400 invalid_grant", a.status)
		}
	}
	return nil
}

const (
	fileLines = 100           // events
	filesFrom = 1_500_000_000 // the second of the first file; each has one of its own
)

// importer imports files of events into an account of its own.
type importer struct {
	name   string // of its user
	access string
	since  time.Time
	files  int    // acknowledged
	sent   bool   // the next file was sent, and no summary came back
	read   int    // events that were found in the log
	newest string // of them
}

func (w *importer) account() string { return "acct_" + w.name }

func (w *importer) prepare(ctx context.Context, l *ledger) error {
	p, a, err := l.grant(ctx, "password", "username", w.name, "password", l.password)
	if err != nil || p.Access == "" {
		return fmt.Errorf("password grant: %s, %w", a, err)
	}
	w.access, w.since = p.Access, time.Now()
	return nil
}

// importCounts is the last line of an answer to an import.
type importCounts struct {
	Summary             bool
	Recorded, Unchanged int
}

// send imports a file.
func (w *importer) send(ctx context.Context, l *ledger, file int) (counts importCounts, a answer, err error) {
	var lines strings.Builder
	for line := range fileLines {
		fmt.Fprintf(&lines, `{"type":"customer.updated","resource":"cus_%d","createdAt":%d,"eventData":{"object":{"notes":%q}}}`+"\n", line%resourcesPerWriter, filesFrom+file, note(file, line))
	}
	operator := client{base: "http://tollhouse", http: l.operator}
	a, err = operator.send(ctx, http.MethodPost, "/admin/events/import?account="+w.account(), lines.String(), "Content-Type", "application/x-ndjson")
	if err != nil {
		return counts, a, err
	}
	for line := range strings.Lines(string(a.body)) {
		counts = importCounts{}
		_ = json.Unmarshal([]byte(line), &counts) // what is no summary is none
	}
	return counts, a, nil
}

// tooBusy waits when an import has no summary, and so was recorded in part at most.
func (l *ledger) tooBusy(counts importCounts, a answer, err error) bool {
	if err != nil || counts.Summary || a.status/100 == 4 {
		return false
	}
	l.busy.Add(1)
	time.Sleep(busyPause)
	return true
}

func note(file, line int) string { return fmt.Sprintf("%d-%d", file, line) }

func (w *importer) write(ctx context.Context, l *ledger, _ *rand.Rand) error {
	counts, a, err := w.send(ctx, l, w.files)
	switch {
	case err != nil:
		w.sent = true
		return err
	case a.status/100 == 4:
		return fmt.Errorf("import: %s", a)
	case !counts.Summary: // it may have been recorded in part
		w.sent = true
		l.busy.Add(1)
		return nil
	case !w.sent && counts.Recorded != fileLines || counts.Recorded+counts.Unchanged != fileLines:
		return fmt.Errorf("import of %d events: %s", fileLines, a)
	}
	l.acknowledge()
	w.files, w.sent = w.files+1, false
	return nil
}

// check reads on, and completes the file whose import was not acknowledged.
func (w *importer) check(ctx context.Context, l *ledger) error {
	if time.Since(w.since) > readerLifetime {
		if err := w.prepare(ctx, l); err != nil {
			return err
		}
	}
	if err := w.readOn(ctx, l); err != nil || !w.sent {
		return err
	}
	there := w.read - w.files*fileLines
	counts, a, err := w.send(ctx, l, w.files)
	if l.tooBusy(counts, a, err) {
		return w.check(ctx, l)
	}
	if err != nil || counts.Unchanged != there || counts.Recorded != fileLines-there {
		return fmt.Errorf("an import of which %d of %d events were there, sent again: %s, %w", there, fileLines, a, err)
	}
	w.files, w.sent = w.files+1, false
	return w.readOn(ctx, l)
}

// readOn wants every event of every acknowledged file, in order, and the first of
// those of a file that was sent.
func (w *importer) readOn(ctx context.Context, l *ledger) error {
	err := l.eachEvent(ctx, w.access, w.newest, "", func(e event) error {
		file, line := w.read/fileLines, w.read%fileLines
		if file > w.files || file == w.files && !w.sent || e.Data.Object["notes"] != note(file, line) {
			return l.missing("event %s of an import is %v, want line %d of file %d", e.ID, e.Data.Object, line, file)
		}
		w.read, w.newest = w.read+1, e.ID
		return nil
	})
	if err == nil && w.read < w.files*fileLines {
		return l.missing("%d imported events were found, want %d", w.read, w.files*fileLines)
	}
	return err
}

// replay reads everything from the beginning, and imports the last file again, which
// records nothing.
func (w *importer) replay(ctx context.Context, l *ledger) error {
	if w.files == 0 {
		return nil
	}
	counts, a, err := w.send(ctx, l, w.files-1)
	if l.tooBusy(counts, a, err) {
		return w.replay(ctx, l)
	}
	if err != nil || counts.Unchanged != fileLines {
		return l.accepted("a file that was imported, once more: %s, %v", a, err)
	}
	all := *w
	all.read, all.newest = 0, ""
	return all.readOn(ctx, l)
}
