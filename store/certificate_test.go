package store_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"tollhouse/store"
	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const canaryKey = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIKcanary\n-----END EC PRIVATE KEY-----\n"

// Promise (TLS and proxies): ACME by tls-alpn-01 and http-01: fetched and renewed for one name,
// never on a stranger's handshake
func TestCertificate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	kept := func(t *testing.T) *storetest.Fixture {
		f := storetest.New(t)
		must.Do(t, f.UpdateCertificate(ctx, "pay.example", []byte(canaryKey)))
		return f
	}
	t.Run("comes_back_and_is_replaced", func(t *testing.T) {
		t.Parallel()
		f := kept(t)
		if got, err := f.FindCertificate(ctx, "pay.example"); err != nil || string(got) != canaryKey {
			t.Errorf("FindCertificate = %q, %v; want what was kept", got, err)
		}
		must.Do(t, f.UpdateCertificate(ctx, "pay.example", []byte("another")))
		if got, err := f.FindCertificate(ctx, "pay.example"); err != nil || string(got) != "another" {
			t.Errorf("FindCertificate = %q, %v; want what replaced it", got, err)
		}
	})
	t.Run("tls_the_store_alone_yields_no_private_key", func(t *testing.T) {
		t.Parallel()
		f := kept(t)
		records, all := 0, bytes.Buffer{}
		err := f.DB.View(ctx, func(r kv.Reader) error {
			for key, value := range r.Scan(kv.Range{}) {
				records++
				all.Write(key)
				all.Write(value)
			}
			return nil
		})
		if err != nil || records < 2 || !bytes.Contains(all.Bytes(), []byte("pay.example")) {
			t.Fatalf("%d records, %v; want the certificate's among them", records, err)
		}
		for _, part := range []string{"PRIVATE", "MHcCAQEEIK", "canary"} {
			if bytes.Contains(all.Bytes(), []byte(part)) {
				t.Errorf("the store holds %q in clear", part)
			}
		}
	})
	t.Run("tls_another_server_key_finds_none", func(t *testing.T) {
		t.Parallel()
		f := kept(t)
		other, err := store.Open(ctx, f.DB, store.Options{Now: f.Clock.Now, Key: secret.NewKey(nil), Lifetimes: store.DefaultLifetimes()})
		must.Do(t, err)
		if got, err := other.FindCertificate(ctx, "pay.example"); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("FindCertificate = %q, %v; want ErrNotFound", got, err)
		}
	})
	t.Run("tls_a_record_cannot_take_anothers_place", func(t *testing.T) {
		t.Parallel()
		f := kept(t)
		moved := append([]byte{'v'}, "bank.example\x00"...)
		must.Do(t, f.DB.Update(ctx, func(tx kv.Txn) error {
			value, err := tx.Get(append([]byte{'v'}, "pay.example\x00"...))
			if err != nil {
				return err
			}
			return tx.Set(moved, value, f.Clock.Now().AddDate(1, 0, 0))
		}))
		if got, err := f.FindCertificate(ctx, "bank.example"); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("FindCertificate = %q, %v; want ErrNotFound", got, err)
		}
	})
	t.Run("names_that_no_key_can_hold_are_none", func(t *testing.T) {
		t.Parallel()
		f := kept(t)
		for _, name := range []string{"", "a\x00b", strings.Repeat("a", 256)} {
			if _, err := f.FindCertificate(ctx, name); !errors.Is(err, record.ErrNotFound) {
				t.Errorf("FindCertificate(%.9q) = %v, want ErrNotFound", name, err)
			}
			if err := f.UpdateCertificate(ctx, name, nil); err == nil {
				t.Errorf("UpdateCertificate(%.9q) was taken", name)
			}
		}
		if err := f.UpdateCertificate(ctx, "large", make([]byte, 64<<10+1)); err == nil {
			t.Error("more than 64 KiB was taken")
		}
	})
	t.Run("is_checked_with_all_the_rest", func(t *testing.T) {
		t.Parallel()
		f := kept(t)
		if n, err := f.CheckAll(ctx); err != nil || n < 2 {
			t.Fatalf("CheckAll = %d, %v", n, err)
		}
		must.Do(t, f.DB.Update(ctx, func(tx kv.Txn) error {
			return tx.Set(append([]byte{'v'}, "pay.example\x00"...), []byte{1, 200, 1, 'x'}, f.Clock.Now().AddDate(1, 0, 0))
		}))
		if _, err := f.CheckAll(ctx); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("CheckAll = %v, want ErrCorrupt", err)
		}
		if _, err := f.FindCertificate(ctx, "pay.example"); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("FindCertificate = %v, want ErrCorrupt", err)
		}
	})
}
