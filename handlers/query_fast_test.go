package handlers

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tollhouse/store/eventlog"
)

// TestQueryTokenInAnySpelling holds the short way through a query to the long one,
// which decodes it.
func TestQueryTokenInAnySpelling(t *testing.T) {
	t.Parallel()
	pieces := []string{
		"access_token", "%61ccess_token", "access%5ftoken", "access%5Ftoken", "ccess_token", "access_toke", "Access_Token", "access+token", "access%token",
		"=", "=", "&", "&", "&", ";", "+", "%26", "%3d", "%", "%6", "%00", "\x00", "\xff", "x", "a", "n", "limit=1", "[]",
	}
	random := rand.New(rand.NewPCG(3, 0x70))
	with := 0
	for n := range 50_000 {
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		if n%1000 == 0 { // more parameters than are read
			b.WriteString(strings.Repeat("&x", paramCountMax+1))
		}
		query := b.String()
		p, refused := parseOAuthParams(query)
		want := p.given("access_token")
		if refused != nil {
			want = strings.Contains(query, "access_token")
		}
		if got := hasQueryToken(query); got != want {
			t.Fatalf("hasQueryToken(%q) = %t, want %t", query, got, want)
		}
		if want {
			with++
		}
	}
	if with < 1000 {
		t.Errorf("%d queries had a token, too few to say anything", with)
	}
}

// TestDigestIsOfTheSameText: the tags of answers that callers hold stay good.
func TestDigestIsOfTheSameText(t *testing.T) {
	t.Parallel()
	for _, q := range []eventQuery{
		{},
		{cursor: "after= before="},
		{Filter: eventlog.Filter{Types: []string{"b.c", "a.b"}, Resources: []string{"r"}, From: 5, To: 1 << 40, Limit: 100, Ascending: true}, cursor: "after=latest before="},
		{Filter: eventlog.Filter{Resources: []string{"z", "y", "x"}, From: -1}},
	} {
		h := fnv.New32a()
		fmt.Fprintln(h, "acct_a", "application/json", q.From, q.To, q.Limit, q.Ascending, q.cursor)
		for _, names := range [][]string{q.Types, q.Resources} {
			fmt.Fprintln(h, slices.Sorted(slices.Values(names)))
		}
		if got, want := q.digest("acct_a", "application/json"), h.Sum32(); got != want {
			t.Errorf("digest of %+v = %08x, want %08x", q, got, want)
		}
	}
}
