package server

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"tollhouse/store/secret"
)

// predictable returns the randomness of --rand-seed, nil without it: the n-th drawing
// of a sequence is the SHA-256 of seed, sequence and n. Each kind of token has a
// sequence of its own: the third access token is the same however many events were
// recorded before it. Whoever knows the seed knows every token, so datadir.Open refuses
// to keep anything on disk under it.
func (f devFlags) predictable() secret.Source {
	if !f.seeded {
		return nil
	}
	var mu sync.Mutex
	drawn := map[string]uint64{}
	return func(sequence string, b []byte) {
		if len(b) > sha256.Size {
			panic("server: a predictable drawing is too long")
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
