package pgkv

import (
	"encoding/binary"
	"time"
)

// expiryMargin keeps expired rows a day longer, in case a clock steps.
const expiryMargin = 24 * time.Hour

// expiry returns the Unix second from which a row may be dropped.
func expiry(expiresAt time.Time) int64 {
	if expiresAt.IsZero() {
		return 0
	}
	return max(1, expiresAt.Add(expiryMargin).Unix())
}

// The binary form of PostgreSQL's parameters.

func int8Param(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func int8Value(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

const (
	oidBytea = 17
	oidInt8  = 20
)

func byteaArray(list [][]byte) []byte {
	size := 20
	for _, b := range list {
		size += 4 + len(b)
	}
	out := arrayHeader(make([]byte, 0, size), oidBytea, len(list))
	for _, b := range list {
		out = binary.BigEndian.AppendUint32(out, uint32(len(b)))
		out = append(out, b...)
	}
	return out
}

func int8Array(list []int64) []byte {
	out := arrayHeader(make([]byte, 0, 20+12*len(list)), oidInt8, len(list))
	for _, n := range list {
		out = binary.BigEndian.AppendUint32(out, 8)
		out = binary.BigEndian.AppendUint64(out, uint64(n))
	}
	return out
}

// arrayHeader appends the header of an array with one dimension and no nulls.
func arrayHeader(out []byte, oid uint32, n int) []byte {
	for _, field := range [5]uint32{1, 0, oid, uint32(n), 1} {
		out = binary.BigEndian.AppendUint32(out, field)
	}
	return out
}
