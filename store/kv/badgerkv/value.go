package badgerkv

import (
	"encoding/binary"
	"hash/crc32"

	"tollhouse/store/kv"
)

// checksumSize is the length of the checksum that ends every stored value: the
// CRC-32C of the key and the value, big-endian. The key is part of it, so that
// a value that damage has moved under another key is found out too.
const checksumSize = crc32.Size

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal returns value as it is stored under key.
func seal(key, value []byte) []byte {
	return sealTo(make([]byte, len(value)+checksumSize), key, value)
}

// sealTo is seal into sealed, which has the length of both.
func sealTo(sealed, key, value []byte) []byte {
	copy(sealed, value)
	binary.BigEndian.PutUint32(sealed[len(value):], checksum(key, value))
	return sealed
}

// unseal returns the value within sealed, or a *kv.CorruptError.
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

// corrupt names the kind of key; a range from the very first key has none.
func corrupt(key []byte, reason string) error {
	e := &kv.CorruptError{Reason: reason}
	if len(key) > 0 {
		e.Kind = key[0]
	}
	return e
}
