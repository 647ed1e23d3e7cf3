package badgerkv

import (
	"reflect"
	"unsafe"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/ristretto/v2/z"
)

// buildersKept is how many builders' buffers are kept for the next table. Each
// may hold 60 MiB, for a full memtable and its compressed blocks.
const buildersKept = 1

// smallPool gives an engine that was just opened a small pool for the buffers of
// its table builders in place of its own, which it returns; putBack undoes that,
// so that the engine can end its own.
//
// Badger 4.9.6 returns each buffer to the pool, where it stays as large as the
// largest table that it ever held, and is let go only while no table is built.
// During an import of a million events the engine's pool, of eight, came to hold
// 1.4 GiB, which the collector, under its limit, went through again and again.
// Without any pool the buffers of each table are new memory, most of all that is
// allocated in an import.
//
// No option does that, so it is done by the field's name. Where Badger has no
// such field the pool stays as it is (TestBuildersKeepFewBuffers tells).
//
// The engine's goroutines read the field meanwhile. They take it once for each
// builder and may find either, so the race detector is told to look away.
//
//go:norace
func smallPool(engine *badger.DB) (p builderPools) {
	if field := builderPool(engine); field != nil {
		p = builderPools{engines: *field, ours: z.NewAllocatorPool(buildersKept)}
		*field = unsafe.Pointer(p.ours)
	}
	return p
}

// builderPools are the engine's pool and the one that it has in place of it.
type builderPools struct {
	engines unsafe.Pointer
	ours    *z.AllocatorPool
}

// putBack undoes smallPool. Builders that have begun still return their buffers
// to the small pool, so that it is to be ended behind the engine.
//
//go:norace
func (p builderPools) putBack(engine *badger.DB) {
	if field := builderPool(engine); field != nil {
		*field = p.engines
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
