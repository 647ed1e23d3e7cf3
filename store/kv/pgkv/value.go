package pgkv

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"tollhouse/store/kv"
)

// checksumSize is the size of the checksum at the end of every stored value: the
// CRC-32C of key and value, big-endian, as in badgerkv.
const checksumSize = crc32.Size

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns the stored form of value under key.
func seal(key, value []byte) []byte {
	sealed := append(make([]byte, 0, len(value)+checksumSize), value...)
	return binary.BigEndian.AppendUint32(sealed, checksum(key, value))
}

// unseal returns the value in sealed, or a *kv.CorruptError.
func unseal(key, sealed []byte) ([]byte, error) {
	if len(sealed) < checksumSize {
		return nil, corrupt(key, "it is shorter than a checksum")
	}
	value, sum := sealed[:len(sealed)-checksumSize], sealed[len(sealed)-checksumSize:]
	if binary.BigEndian.Uint32(sum) != checksum(key, value) {
		return nil, corrupt(key, "its checksum does not match")
	}
	return value[:len(value):len(value)], nil
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

func corrupt(key []byte, reason string) error {
	e := &kv.CorruptError{Reason: reason}
	if len(key) > 0 {
		e.Kind = key[0]
	}
	return e
}

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
