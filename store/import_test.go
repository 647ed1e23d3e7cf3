package store_test

import (
	"fmt"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
	"tollhouse/store/webhook/target"
)

const bcryptOfHarriet = "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy"

// ported is the outcome of an import in a test.
type ported struct {
	store.ImportSummary
	reports []string // line:code:param, or line:differs:members
	stopped bool
}

// port imports lines as the operator's request does.
func port(t testing.TB, s *store.Store, o store.ImportOptions, lines ...string) ported {
	t.Helper()
	var p ported
	o.ParseURL = new(target.Rules).ParseURL
	o.Report = func(r store.ImportReport) {
		if r.Refused != nil {
			p.reports = append(p.reports, fmt.Sprintf("%d:%s:%s", r.Line, r.Refused.Code, r.Refused.Param))
		} else {
			p.reports = append(p.reports, fmt.Sprintf("%d:differs:%s", r.Line, strings.Join(r.Differs, " ")))
		}
	}
	ctx := store.WithActor(t.Context(), store.Actor{})
	im := s.NewImport(ctx, o)
	offset := 0
	for _, line := range lines {
		must.Do(t, im.Add(ctx, []byte(line), int64(offset)))
		offset += len(line) + 1
	}
	must.Do(t, im.Flush(ctx))
	p.ImportSummary, p.stopped = im.Summary(), im.Stopped()
	if sum := p.Created.All() + p.Unchanged + p.Updated + p.Errors + p.Expired + p.Empty; sum != p.Lines {
		t.Errorf("the summary does not add up: %d of %d lines in %+v", sum, p.Lines, p.ImportSummary)
	}
	return p
}

// portable has a line of each noun that needs no leave.
var portable = []string{
	`{"account":{"account":"acct_larkspur","name":"Larkspur","created_at":1600000000}}`,
	`{"client":{"client_id":"books","client_secret":"a secret of the old system, 1","name":"Books","redirect_uris":["https://books.example/cb"],"scopes":["events:read"]}}`,
	`{"client":{"client_id":"till","public":true,"redirect_uris":["https://till.example/cb"]}}`,
	`{"user":{"username":"Harriet","account":"acct_larkspur","password_hash":"` + bcryptOfHarriet + `","created_at":1600000000}}`,
	`{"user":{"username":"odile","account":"acct_larkspur"}}`,
	`{"user":{"username":"clement","account":"acct_larkspur","password_hash":{"scheme":"symfony","algorithm":"sha512","iterations":2,"base64":false,"salt":"s","hash":"` + strings.Repeat("0", 128) + `"}}}`,
	``,
	`{"resource":{"kind":"plan","id":"basic","account":"acct_larkspur","object":{"price":9.50},"createdAt":1600000001}}`,
	`{"resource":{"kind":"plan","id":"old","account":"acct_larkspur","object":{"price":1},"event":"none"}}`,
	`{"event":{"id":"po_1","owner":"acct_larkspur","type":"customer.created","resource":"cus_1","createdAt":1600000002,"eventData":{"object":{"city":"Dunmere"}}}}`,
	`{"webhook":{"url":"https://hooks.example/","account":"acct_larkspur","types":["customer.*"],"cursor":"po_1"}}`,
}

// It creates what is not there, and a second run changes nothing; a dry run says the same.
//
// Promise (Platform §9): an import creates, and changes nothing that exists: a second run is all
// unchanged, also of lines without ids; a dry run reports alike and leaves nothing
func TestImportCreatesAndAgainChangesNothing(t *testing.T) {
	t.Parallel()
	for _, dry := range []bool{true, false} {
		f := storetest.New(t)
		twice := append(append([]string{}, portable...), portable...)
		got := port(t, f.Store, store.ImportOptions{DryRun: dry}, twice...)
		want := store.Created{Accounts: 1, Clients: 2, Users: 3, Resources: 2, Events: 1, Webhooks: 1}
		if got.Created != want || got.Unchanged != 10 || got.Empty != 2 || len(got.reports) != 0 || got.WithoutPassword != 1 || got.Hashes["bcrypt-10"] != 1 || got.Hashes["symfony wrapped"] != 1 {
			t.Errorf("dry %v: %+v", dry, got)
		}
	}
}
