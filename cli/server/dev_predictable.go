package server

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"sync"

	"tollhouse/store/secret"
)

// sequences is the random source of --rand-seed. Draw n of a sequence is the SHA-256 of
// the seed, the sequence and n. Each kind of token has its own sequence, so the third
// access token does not depend on how many events came before. Anyone who knows the seed
// knows every token, so datadir.Open refuses such a source for a store on disk.
type sequences struct {
	seed  uint64
	mu    sync.Mutex
	drawn map[string]uint64
}

// newSequences returns sequences from which some was drawn, or nil without a seed.
func newSequences(seed *uint64, drawn map[string]uint64) *sequences {
	if seed == nil {
		return nil
	}
	s := &sequences{seed: *seed, drawn: map[string]uint64{}}
	maps.Copy(s.drawn, drawn)
	return s
}

// source returns the source of randomness of a store, or nil for the system's.
func (s *sequences) source() secret.Source {
	if s == nil {
		return nil
	}
	return s.draw
}

func (s *sequences) draw(sequence string, b []byte) {
	if len(b) > sha256.Size {
		panic("server: too many bytes in one draw of a predictable source")
	}
	s.mu.Lock()
	n := s.drawn[sequence]
	s.drawn[sequence] = n + 1
	s.mu.Unlock()
	input := append([]byte("tollhouse/foretold/"), sequence...)
	input = binary.BigEndian.AppendUint64(append(input, 0), s.seed)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(input, n))
	copy(b, sum[:])
}

// counts returns how much was drawn from each sequence.
func (s *sequences) counts() map[string]uint64 {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.drawn)
}
