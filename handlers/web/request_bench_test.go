package web

import (
	"net/netip"
	"testing"
	"time"
)

// BenchmarkParams reads the form of a refresh.
func BenchmarkParams(b *testing.B) {
	form := "client_id=tollhouse_mzxw6ytboi4dkmrqgiydsmrqge&client_secret=tollcs_0000000000000000000000000000000000000000000000000" +
		"&grant_type=refresh_token&refresh_token=tollrt_0000000000000000000000000000000000000000000000000"
	b.ReportAllocs()
	for b.Loop() {
		if p, refused := ParseOAuthParams(form); refused != nil || !p.Has("refresh_token") {
			b.Fatal(refused)
		}
	}
}

// BenchmarkFacts is what each request begins with, its id above all.
func BenchmarkFacts(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newFacts(time.Time{}, netip.Addr{}, nil)
	}
}
