//go:build !linux && !darwin

package badgerkv

import (
	"io/fs"
	"math"
)

// freeSpace is not implemented: these systems only run stores in memory.
func freeSpace(string) (uint64, error) { return math.MaxUint64, nil }

func allocated(info fs.FileInfo) int64 { return info.Size() }

// FilesMax reports no limit on these systems.
func FilesMax() uint64 { return noLimit }
