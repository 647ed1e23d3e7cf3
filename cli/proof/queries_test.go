package proof

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"tollhouse/store/storetest/must"
)

// TestQueries sends the queries that programs for Node write, by the libraries
// that write them: each spelling of a filter is that filter, and each slip is
// refused and explained. None is passed over, which would answer with the whole
// list.
//
// Promise (§2.2): the spellings of PHP, Go, Node, Python and Ruby are one filter
func TestQueries(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	s := startDev(t)
	c := s.asClient(credentials{ID: s.ready.ClientID, Secret: s.ready.ClientSecret})
	pair, _, err := c.grant(t.Context(), "password", "username", s.ready.Username, "password", s.ready.Password)
	must.Do(t, err)
	list := func(query string) (page struct {
		Data []struct {
			ID, Type  string
			CreatedAt int64
		}
	}) {
		answer, err := c.call(t.Context(), pair.Access, "GET", "/api/events?"+query, "")
		if err != nil || answer.status != 200 {
			t.Fatalf("GET %s = %v %v", query, answer, err)
		}
		decode(t, answer.body, &page)
		return page
	}
	// The third oldest of the wanted events, so that the time leaves some out.
	since := list("type=customer.created,customer.updated&order=asc&limit=3").Data[2].CreatedAt
	want := list("type[]=customer.created&type[]=customer.updated&limit=7&createdAt[gte]=" + jsonOf(since))
	if all := list("limit=1000"); len(want.Data) < 2 || len(want.Data) >= len(all.Data) {
		t.Fatalf("the filter chooses %d of %d events, and should choose some", len(want.Data), len(all.Data))
	}

	cmd := nodeProgram(t, "queries.mjs")
	cmd.Stdin = strings.NewReader(jsonOf(map[string]any{"url": s.ready.URL, "token": pair.Access, "since": since}))
	said, err := cmd.Output()
	if err != nil {
		t.Fatalf("node queries.mjs: %v", err)
	}
	slips := map[string]struct{ code, param, hint string }{
		"slip_URLSearchParams_of_a_nested_object": {"invalid_parameter", "createdAt", "createdAt[gte]"},
		"slip_querystring_of_a_nested_object":     {"invalid_parameter", "createdAt", "leave it out"},
		"slip_qs_of_null":                         {"invalid_parameter", "type", "leave it out"},
		"slip_querystring_of_null":                {"invalid_parameter", "createdAt", "leave it out"},
		"slip_qs_of_milliseconds":                 {"invalid_parameter", "createdAt[gte]", "in seconds it is " + jsonOf(since)},
		"slip_qs_of_a_date":                       {"invalid_parameter", "createdAt[gte]", "seconds since 1970"},
		"slip_qs_with_dots":                       {"unknown_parameter", "createdAt.gte", "createdAt[gte]"},
	}
	spelt := 0
	for line := range bytes.Lines(said) {
		var sent struct {
			Name, Query string
			Status      int
			Body        json.RawMessage
		}
		decode(t, line, &sent)
		slip, isSlip := slips[sent.Name]
		delete(slips, sent.Name)
		t.Run(sent.Name, func(t *testing.T) {
			if isSlip {
				a := answer{status: sent.Status, body: sent.Body}
				if !a.refused(400, slip.code) || !strings.Contains(string(sent.Body), `"param":`+jsonOf(slip.param)) || !strings.Contains(string(sent.Body), slip.hint) {
					t.Errorf("%s = %v, want 400 %s on %s that tells of %s", sent.Query, a, slip.code, slip.param, slip.hint)
				}
				return
			}
			spelt++
			got := want
			decode(t, sent.Body, &got)
			if sent.Status != 200 || jsonOf(got) != jsonOf(want) {
				t.Errorf("%s = %d %s, want %s", sent.Query, sent.Status, jsonOf(got), jsonOf(want))
			}
		})
	}
	if spelt != 19 || len(slips) > 0 {
		t.Errorf("%d spellings were sent and %d slips were not", spelt, len(slips))
	}
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
