package datadir

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"tollhouse/cli/term"
	"tollhouse/store/kv/badgerkv"
)

// One knob says how much memory a server may take: the engine's tables and caches get
// their share of it, and Go's collector works harder once the process holds three eighths more.
// The default is the profile for a small machine; every command that opens a store
// itself keeps to it.
const (
	MemoryDefault = Memory(badgerkv.MemoryDefault / engineShare * wholeShare) // 256 MiB
	MemoryMin     = Memory(badgerkv.MemoryMin / engineShare * wholeShare)     // 128 MiB
	MemoryMax     = Memory(64 << 30)                                          // far above what the caches can use

	// The engine has 5 parts of 16: half of what it has is garbage now and then,
	// and hashing passwords needs 19 MiB for each core.
	engineShare, wholeShare = 5, 16
)

// Garbage is how much the collector lets pile up, in percent of what is in use: as much as Go's
// own. With 40 the collector takes more of the processor's time for each request, and some 10 MiB
// less are held. Near the limit below, neither decides: with 100, an import of 150,000 events held
// 273 MiB at most and the attacks of TestMemoryUnderAttack 317.
const Garbage = 100

// limitShare of wholeShare is the collector's own limit. Under writers that
// never pause, the engine's buffers bring what is in use near to --memory itself, and a
// collector that may not go beyond it takes half of the processor's time: at 256 MiB, 320
// clients then got 50 to 55 % of the requests that 128 clients got. With 20 the engine's
// eight buffers for tables reached the limit after a minute, the collector ran twelve
// times a second, and every load got a sixth less; with 22 it runs three to eight times.
// With 24 an import held 326 MiB instead of 269, and 10,000 header fields at a time 367
// instead of 334.
const limitShare = 22

// Memory is a number of bytes: 256MiB, 1GiB, 512M.
type Memory int64

// String is a short text that Set reads as the same.
func (m *Memory) String() string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := Memory(1) << (30 - 10*i); *m >= size && *m%size == 0 {
			return strconv.FormatInt(int64(*m/size), 10) + unit
		}
	}
	return strconv.FormatInt(int64(*m), 10)
}

// Type is the kind of the value in help.
func (m *Memory) Type() string { return "size" }

// Set reads a size.
func (m *Memory) Set(text string) error {
	digits := strings.TrimRight(text, "BKMGibkmg")
	shift, known := map[string]int{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30}[strings.ToLower(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > math.MaxInt64>>shift {
		return errors.New("give a size such as 256MiB or 1GiB")
	}
	*m = Memory(n << shift)
	return nil
}

// Check refuses what a server cannot work with.
func (m Memory) Check() error {
	least, most := MemoryMin, MemoryMax
	switch {
	case m < MemoryMin:
		return term.Usage(fmt.Sprintf("give %s or more", &least), "--memory %s is below the minimum of %s", &m, &least)
	case m > MemoryMax:
		return term.Usage(fmt.Sprintf("give %s or less", &most), "--memory %s is more than the store's caches can use", &m)
	}
	return nil
}

// Engine is what the store's engine may take of it, in bytes.
func (m Memory) Engine() int64 { return int64(m) / wholeShare * engineShare }

// Collector is the limit that Go's collector keeps to if it can, in bytes.
func (m Memory) Collector() int64 { return int64(m) / wholeShare * limitShare }

// Limit sets the parameters of Go's collector, unless the operator has set them.
func (m Memory) Limit(environ []string) {
	has := func(name string) bool {
		return slices.ContainsFunc(environ, func(pair string) bool { return strings.HasPrefix(pair, name+"=") })
	}
	if !has("GOMEMLIMIT") {
		debug.SetMemoryLimit(m.Collector())
	}
	if !has("GOGC") {
		debug.SetGCPercent(Garbage)
	}
}
