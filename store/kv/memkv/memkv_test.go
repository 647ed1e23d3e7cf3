package memkv_test

import (
	"errors"
	"testing"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/kv/kvtest"
	"tollhouse/store/kv/memkv"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(*testing.T) kv.DB { return memkv.New(nil) })
}

func TestConformanceWhileReclaiming(t *testing.T) {
	t.Parallel()
	kvtest.Run(t, func(*testing.T) kv.DB { return memkv.New(time.Now) })
}

// TestConformanceShared runs the cases for two processes with one store as both.
func TestConformanceShared(t *testing.T) {
	t.Parallel()
	kvtest.RunShared(t, func(*testing.T) (a, b kv.DB) {
		db := memkv.New(nil)
		return db, db
	})
}

func TestExpired(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	db := memkv.New(func() time.Time { return now })
	set := func(key string, expiresAt time.Time) {
		err := db.Update(t.Context(), func(tx kv.Txn) error {
			return tx.Set([]byte(key), []byte("v"), expiresAt)
		})
		if err != nil {
			t.Fatalf("Update() = %v, want nil", err)
		}
	}
	get := func(key string) error {
		return db.View(t.Context(), func(r kv.Reader) error {
			_, err := r.Get([]byte(key))
			return err
		})
	}

	set("a", now.Add(time.Second))
	if err := get("a"); err != nil {
		t.Errorf("Get(a second early) = %v, want nil", err)
	}
	now = now.Add(time.Second)
	set("b", time.Time{})
	if err := get("a"); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("Get(expired, after an update) = %v, want ErrNotFound", err)
	}
}
