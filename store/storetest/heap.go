package storetest

import "runtime"

// Heap collects garbage and returns the bytes of the objects that are left.
func Heap() int64 {
	runtime.GC()
	runtime.GC() // what a sync.Pool holds survives the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
