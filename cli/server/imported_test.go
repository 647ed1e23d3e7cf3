package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tollhouse/handlers/admin"
	"tollhouse/store"
	"tollhouse/store/storetest/must"
)

// importHash creates a user with a bcrypt hash.
func importHash(t testing.TB, s *store.Store, name string) {
	t.Helper()
	im := s.NewImport(t.Context(), store.ImportOptions{})
	must.Do(t, im.Add(t.Context(), []byte(`{"account":{"account":"acct_larkspur"}}`), 0))
	must.Do(t, im.Add(t.Context(), fmt.Appendf(nil, `{"user":{"username":%q,"account":"acct_larkspur","password_hash":"$2a$10$O8FiKqUzy3mQXGlBx4hVhe3DDL9h3zQ4Oe0hM.pyGcy60EAV0BfP6"}}`, name), 0))
	must.Do(t, im.Flush(t.Context()))
}

// Promise (Platform §10): status, doctor and a metric say how many users still have an imported hash,
// and since when
func TestImportedHashesAreShown(t *testing.T) {
	t.Parallel()
	r := inMemory(t)
	finding := func() (f admin.Finding) {
		checkup{data: r.data(), server: r}.run(t.Context(), admin.DepthUsual, func(one admin.Finding) {
			if one.Check == "imported hashes" {
				f = one
			}
		})
		return f
	}
	if s := r.status(t.Context()); s.Imported != nil || finding() != (admin.Finding{}) {
		t.Errorf("without imported hashes: status %+v, doctor %+v", s.Imported, finding())
	}
	importHash(t, r.data().Store, "harriet")
	must.Get(r.data().Store.CreateFixedUser(t.Context(), store.UserSpec{Username: "native", Account: "acct_larkspur"}, demoPasswordHash))(t)
	s := r.status(t.Context())
	if i := s.Imported; i == nil || i.Users != 1 || !slices.Equal(i.Kinds, []admin.ImportedKind{{Kind: "bcrypt-10", Users: 1}}) {
		t.Fatalf("status has %+v", s.Imported)
	}
	if f := finding(); f.State != admin.StateOK || f.Detail != "1 of 2 users still has an imported hash, the oldest for 0 days" {
		t.Errorf("doctor says %+v", f)
	}
	later := time.Unix(s.Imported.Oldest, 0).Add(90*24*time.Hour + time.Hour)
	if row := importedRow(admin.ImportedStatus{Users: 412, Oldest: s.Imported.Oldest}, later); !strings.Contains(row[1], "412 users, the oldest for 90 days") {
		t.Errorf("status says %q", row)
	}
	if got := grouped(999) + " " + grouped(10_000) + " " + grouped(1_234_567); got != "999 10,000 1,234,567" {
		t.Errorf("grouped: %s", got)
	}
}
