package store_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/eventlog"
	"tollhouse/store/moving"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook"
)

// importAll imports lines, all of which must be taken and be as what exists.
func importAll(t testing.TB, s *store.Store, lines []string, allow ...string) store.ImportSummary {
	t.Helper()
	ctx := context.Background()
	im := s.NewImport(ctx, store.ImportOptions{SkipErrors: true, Allow: allow, ParseURL: func(url string) (string, error) { return url, nil }, Report: func(r store.ImportReport) {
		if r.Refused != nil {
			t.Errorf("the line %s is refused: %s %s: %s (%s)", lines[r.Line-1], r.Refused.Code, r.Refused.Param, r.Refused.Reason, r.Refused.Hint)
		} else {
			t.Errorf("the line %s differs in %v", lines[r.Line-1], r.Differs)
		}
	}})
	for _, line := range lines {
		must.Do(t, im.Add(ctx, []byte(line), 0))
	}
	must.Do(t, im.Flush(ctx))
	return im.Summary()
}

// foreignHash is a hash that another system's own library made.
type foreignHash struct {
	Password string          `json:"password"`
	Hash     json.RawMessage `json:"hash"`
}

func foreignHashes(t testing.TB) (list []foreignHash) {
	t.Helper()
	for _, file := range must.Get(filepath.Glob("secret/testdata/foreign/*.ndjson"))(t) {
		lines := bufio.NewScanner(bytes.NewReader(must.Get(os.ReadFile(file))(t)))
		for lines.Scan() {
			var one foreignHash
			must.Do(t, json.Unmarshal(lines.Bytes(), &one))
			list = append(list, one)
		}
		must.Do(t, lines.Err())
	}
	return list
}

// Promise (Platform §13): an export with secrets, imported into an empty store and exported again, is the
// same bytes, from each engine into each; users sign in with their passwords and tokens work
func TestAnExportComesBackAsItWas(t *testing.T) {
	t.Parallel()
	hashes := foreignHashes(t)
	var old []string
	for i, h := range hashes {
		old = append(old, fmt.Sprintf(`{"user":{"username":"old%03d","account":"acct_a","password_hash":%s}}`, i, h.Hash))
	}
	old = append(old, `{"client":{"client_id":"old","name":"Old","grants":["password"],"client_secret_hash":"$2b$10$Bqriii12e9KfinuYScWI/uSRtXXzRKYM63MgVz8Uo1mBeGrMsKstm"}}`)
	t.Run("from_disk_to_memory", func(t *testing.T) {
		t.Parallel()
		must.SkipInShort(t) // hashes cost their time
		h := fill(t, storetest.OnDisk(t, storetest.FullHashes))
		importAll(t, h.Store, old, "digest", "unsalted")
		comesBack(t, h, storetest.NewKeeping(t, storetest.FullHashes), hashes)
	})
	t.Run("from_memory_to_disk", func(t *testing.T) {
		t.Parallel()
		comesBack(t, fill(t, storetest.NewKeeping(t, storetest.FullHashes)), storetest.OnDisk(t, storetest.FullHashes), nil)
	})
}

func comesBack(t *testing.T, h full, into *storetest.Fixture, hashes []foreignHash) {
	t.Helper()
	ctx := t.Context()
	into.Clock.Advance(h.Now().Sub(into.Now()) + time.Minute)
	lines := exported(t, h.Store, store.ExportSpec{Secrets: true})
	if sum := importAll(t, into.Store, lines, "privileged"); sum.Created.All() != len(lines) || sum.Cut > 0 {
		t.Errorf("of %d lines an import made %+v", len(lines), sum)
	}
	again := exported(t, into.Store, store.ExportSpec{Secrets: true})
	for i, line := range lines {
		if i >= len(again) || again[i] != line {
			t.Fatalf("line %d, exported again, is\n%s\nwant\n%s", i+1, strings.Join(again[i:min(i+1, len(again))], ""), line)
		}
	}
	if len(again) != len(lines) {
		t.Errorf("exported again it has %d lines, want %d: %s", len(again), len(lines), again[len(lines)])
	}
	if sum := importAll(t, into.Store, lines, "privileged"); sum.Unchanged != len(lines) {
		t.Errorf("imported again: %+v", sum)
	}
	for _, name := range []string{"adam", "ZOË", `bea"\{}'`} {
		must.Get(into.AuthenticateUser(ctx, secret.Caller{}, name, storetest.Password))(t)
	}
	for _, line := range linesOfNoun(again, "user") {
		u := must.Get(moving.Parse([]byte(line), false))(t).(*moving.User)
		var i int
		if _, err := fmt.Sscanf(u.Username, "old%d", &i); err != nil {
			continue
		}
		isWrapped := bytes.HasPrefix(u.PasswordHash.JSON, []byte(`"$wrapped$`))
		if !isWrapped && !sameJSON(t, u.PasswordHash.JSON, hashes[i].Hash) {
			t.Errorf("the hash %s became %s", hashes[i].Hash, u.PasswordHash.JSON)
		}
		if isWrapped && len(hashes[i].Password) <= 72 { // of those a check is cheap
			if _, err := into.AuthenticateUser(ctx, secret.Caller{}, u.Username, hashes[i].Password); err != nil {
				t.Errorf("who had the hash %s cannot sign in: %v", hashes[i].Hash, err)
			}
		}
	}
	for i, pair := range h.live {
		text := must.Get(into.ParseToken(ctx, secret.AccessToken, pair.AccessToken.Reveal()))(t)
		want := must.Get(h.FindPrincipal(ctx, pair.AccessToken))(t)
		p, err := into.FindPrincipal(ctx, text)
		if err != nil || p.Username != want.Username || p.Account != want.Account || p.Scope != want.Scope || p.UserID != want.UserID {
			t.Errorf("the access token %d is that of %+v, %v, want %+v", i, p, err, want)
		}
	}
	if got, want := stateOf(t, into.Store), stateOf(t, h.Store); got != want {
		at := firstDifference(got, want)
		t.Errorf("the other store has %.300q, want %.300q", got[at:], want[at:])
	}
	till := must.Get(into.FindClient(ctx, "till"))(t)
	refresh := must.Get(into.ParseToken(ctx, secret.RefreshToken, h.live[1].RefreshToken.Reveal()))(t)
	must.Get(into.RotateRefresh(ctx, store.Refresh{Client: till, Token: refresh}))(t)
	must.Get(into.CheckAll(ctx))(t)
}

// stateOf describes what an export is about, without reading one.
func stateOf(t testing.TB, s *store.Store) string {
	t.Helper()
	ctx := context.Background()
	var b strings.Builder
	for _, a := range must.Get(s.ListAccounts(ctx, "", 1000))(t) {
		fmt.Fprintln(&b, a.ID, a.Name, a.DisabledAt.IsZero(), a.CreatedAt.Unix())
	}
	for _, c := range must.Get(s.ListClients(ctx, "", 1000))(t) {
		fmt.Fprintln(&b, c.ID, c.Name, c.RedirectURIs, c.Grants, c.Scope, c.Public, c.Introspect, c.Platform, c.Consent(), c.Account, c.Secrets(), c.DisabledAt.IsZero(), c.CreatedAt.Unix())
	}
	for _, u := range must.Get(s.ListUsers(ctx, "", 1000))(t) {
		fmt.Fprintln(&b, u.Subject(), u.Username, u.Account, u.Operator, u.HasPassword(), u.DisabledAt.IsZero(), u.CreatedAt.Unix())
	}
	endpoints := must.Get(s.Webhooks.List(ctx, webhook.System, "", "", 1000))(t)
	for i := range endpoints {
		e := &endpoints[i]
		secrets, _ := s.Webhooks.Open(e)
		fmt.Fprintln(&b, e.ID, e.Account, e.URL, e.Description, e.Types, e.Order, e.Enabled(), e.Behind, secrets[0].Reveal())
	}
	for _, account := range []string{"acct_a", "acct_z"} {
		for _, kind := range []string{"plan", "customer", "wagon"} {
			page := must.Get(s.Events.ListResources(ctx, account, kind, "", 1000, nil, nil))(t)
			fmt.Fprintln(&b, account, string(page.Data))
		}
		page := must.Get(s.Events.ListEvents(ctx, account, eventlog.Filter{To: eventlog.CreatedAtMax, Limit: 1000}, nil))(t)
		fmt.Fprintln(&b, string(page.Data))
	}
	return b.String()
}

func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	var one, other bytes.Buffer
	must.Do(t, json.Compact(&one, a))
	must.Do(t, json.Compact(&other, b))
	return one.String() == other.String()
}
