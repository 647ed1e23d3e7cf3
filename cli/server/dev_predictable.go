package server

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"tollhouse/store/secret"
)

// predictable returns the random source of --rand-seed, or nil without it. Draw n of a
// sequence is the SHA-256 of the seed, the sequence and n. Each kind of token has its own
// sequence, so the third access token does not depend on how many events came before.
// Anyone who knows the seed knows every token, so datadir.Open refuses such a source for
// a store on disk.
func (f devFlags) predictable() secret.Source {
	if !f.seeded {
		return nil
	}
	var mu sync.Mutex
	drawn := map[string]uint64{}
	return func(sequence string, b []byte) {
		if len(b) > sha256.Size {
			panic("server: too many bytes in one draw of a predictable source")
		}
		mu.Lock()
		n := drawn[sequence]
		drawn[sequence] = n + 1
		mu.Unlock()
		input := append([]byte("tollhouse/foretold/"), sequence...)
		input = binary.BigEndian.AppendUint64(append(input, 0), f.randSeed)
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(input, n))
		copy(b, sum[:])
	}
}
