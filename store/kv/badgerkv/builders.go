package badgerkv

import (
	"reflect"
	"unsafe"

	"github.com/dgraph-io/badger/v4"
)

// setAside takes from an engine that was just opened the pool in which it keeps
// the buffers of its table builders, and returns it; putBack gives it back, so
// that the engine can end it.
//
// Badger 4.9.6 returns each buffer to the pool, where it stays as large as the
// largest table that it ever held, and is let go only while no table is built.
// During an import of a million events the pool came to hold 1.4 GiB, which the
// collector, under its limit, went through again and again. Without a pool,
// the buffers of a builder are garbage once its table is written.
//
// No option does that, so it is done by the field's name. Where Badger has no
// such field the pool stays as it is (TestBuildersKeepNoBuffers tells).
//
// The engine's goroutines read the field meanwhile. They take it once for each
// builder and may find either, so the race detector is told to look away.
//
//go:norace
func setAside(engine *badger.DB) (pool unsafe.Pointer) {
	if field := builderPool(engine); field != nil {
		pool, *field = *field, nil
	}
	return pool
}

// putBack undoes setAside.
//
//go:norace
func putBack(engine *badger.DB, pool unsafe.Pointer) {
	if field := builderPool(engine); field != nil {
		*field = pool
	}
}

// builderPool returns where the engine keeps its pool, or nil.
func builderPool(engine *badger.DB) *unsafe.Pointer {
	field := reflect.ValueOf(engine).Elem().FieldByName("allocPool")
	if !field.IsValid() || field.Kind() != reflect.Pointer {
		return nil
	}
	return (*unsafe.Pointer)(unsafe.Pointer(field.UnsafeAddr()))
}
