package kv

import (
	"encoding/binary"
	"hash/crc32"
)

// ChecksumSize is the size in bytes of the checksum at the end of every value that an engine
// stores: the CRC-32C of key and value, big-endian. It includes the key, so that a value moved
// to another key by damage is detected.
const ChecksumSize = crc32.Size

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal returns the stored form of value under key, in new memory.
func Seal(key, value []byte) []byte {
	sealed := append(make([]byte, 0, len(value)+ChecksumSize), value...)
	return binary.BigEndian.AppendUint32(sealed, checksum(key, value))
}

// Unseal returns the value in sealed, which shares its memory. Errors: *[CorruptError].
func Unseal(key, sealed []byte) ([]byte, error) {
	if len(sealed) < ChecksumSize {
		return nil, Corrupt(key, "it is shorter than a checksum")
	}
	value, sum := sealed[:len(sealed)-ChecksumSize], sealed[len(sealed)-ChecksumSize:]
	if binary.BigEndian.Uint32(sum) != checksum(key, value) {
		return nil, Corrupt(key, "its checksum does not match")
	}
	return value[:len(value):len(value)], nil
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// Corrupt returns a *[CorruptError] with the kind of key; a range from the first key has none.
func Corrupt(key []byte, reason string) error {
	e := &CorruptError{Reason: reason}
	if len(key) > 0 {
		e.Kind = key[0]
	}
	return e
}
