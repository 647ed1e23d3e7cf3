package badgerkv

import (
	"encoding/binary"
	"hash/crc32"

	"tollhouse/store/kv"
)

// checksumSize is the size of the checksum at the end of every stored value: the
// CRC-32C of key and value, big-endian. It includes the key, so that a value moved to
// another key by damage is detected.
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

// corrupt returns an error with the kind of key; a range from the first key has none.
func corrupt(key []byte, reason string) error {
	e := &kv.CorruptError{Reason: reason}
	if len(key) > 0 {
		e.Kind = key[0]
	}
	return e
}
