package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/storetest"
)

// A name that nothing can have is that of nothing: it is no error of the caller's form, so
// that an answer does not tell such names from free ones.
func TestNamesThatNothingCanHave(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := storetest.New(t)
	long := strings.Repeat("x", 300)
	for call, find := range map[string]func(name string) error{
		"FindClient":        func(name string) error { _, err := f.FindClient(ctx, name); return err },
		"UpdateClient":      func(name string) error { _, err := f.UpdateClient(ctx, name, store.ClientChange{}); return err },
		"DisableClient":     func(name string) error { _, err := f.DisableClient(ctx, name); return err },
		"DeleteClient":      func(name string) error { return f.DeleteClient(ctx, name) },
		"FindUser":          func(name string) error { _, err := f.FindUser(ctx, name); return err },
		"FindUserBySubject": func(name string) error { _, err := f.FindUserBySubject(ctx, name); return err },
		"DisableUser":       func(name string) error { _, err := f.DisableUser(ctx, name); return err },
		"SetPassword":       func(name string) error { _, err := f.SetPassword(ctx, name, storetest.Password); return err },
		"DeleteUser":        func(name string) error { return f.DeleteUser(ctx, name) },
		"FindAccount":       func(name string) error { _, err := f.FindAccount(ctx, name); return err },
		"DeleteAccount":     func(name string) error { return f.DeleteAccount(ctx, name) },
		"RevokeFamily":      func(name string) error { _, err := f.RevokeFamily(ctx, store.By{}, name); return err },
		"RevokeFamilyOf":    func(name string) error { _, err := f.RevokeFamilyOf(ctx, store.By{}, name); return err },
		"FindEvent":         func(name string) error { _, err := f.Events.FindEvent(ctx, "acct_a", name, nil); return err },
		"FindResource":      func(name string) error { _, err := f.Events.FindResource(ctx, "acct_a", "plan", name); return err },
		"FindCertificate":   func(name string) error { _, err := f.FindCertificate(ctx, name); return err },
	} {
		for _, name := range []string{"", "a\x00b", "a b", long} {
			if err := find(name); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("%s(%.10q) = %v, want ErrNotFound", call, name, err)
			}
		}
	}
	if n := f.Count(t, record.TagAudit); n != 0 {
		t.Errorf("%d audit lines are written", n)
	}
}
