package handlers_test

import (
	"net/http"
	"testing"

	"tollhouse/store/storetest"
)

// BenchmarkLogin is POST /login with the right password of a user without a second factor, with a cheap
// hash, so that what is around it shows.
func BenchmarkLogin(b *testing.B) {
	h := houseOver(b, storetest.New(b))
	br := h.browser(b)
	f := formOn(b, br.get(b, "/login"))
	form := with(f.fields, rightPassword...)
	for b.Loop() {
		if a := br.post(b, f.action, form); a.StatusCode != http.StatusSeeOther {
			b.Fatalf("POST /login = %d", a.StatusCode)
		}
	}
}
