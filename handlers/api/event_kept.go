package api

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"

	"tollhouse/store/eventlog"
)

const (
	KeptSizeMax     = 4 << 20   // bytes of all kept pages: some fifty of 100 events
	KeptPageSizeMax = 256 << 10 // bytes of one
	keptAsked       = 64        // questions remembered, by hash; with more of them a page seldom repeats
)

// keptPages keeps pages that are requested more than once while the log does not change.
// A page depends on nothing but its question and the version of the log, and every change
// raises the version: a page is kept exactly as long as its entity tag is valid.
type keptPages struct {
	seed maphash.Seed

	mu    sync.Mutex
	Pages map[string]*KeptPage // by the identity of the query
	asked [keptAsked]uint64    // hashes of questions and versions
	Size  int                  // of all bodies
}

// KeptPage is never modified.
type KeptPage struct {
	tag  string
	Page eventlog.Page // without its rows
	Body []byte
}

func NewKeptPages() *keptPages {
	return &keptPages{seed: maphash.MakeSeed(), Pages: map[string]*KeptPage{}}
}

// Find returns the page that was kept for a question, whatever its version, or nil.
func (k *keptPages) Find(question string) *KeptPage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Pages[question]
}

// Keep keeps a copy of the page if the same one was made before. It replaces that of
// another version.
func (k *keptPages) Keep(question string, p KeptPage) {
	if len(p.Body) > KeptPageSizeMax {
		return
	}
	key := binary.BigEndian.AppendUint64(append([]byte(question), p.Page.Version.Head[:]...), p.Page.Version.Generation)
	hash := maphash.Bytes(k.seed, key)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(question)
	if asked := &k.asked[hash%keptAsked]; *asked != hash {
		*asked = hash
		return
	}
	for other := range k.Pages { // in random order
		if k.Size+len(p.Body) <= KeptSizeMax {
			break
		}
		k.drop(other)
	}
	p.Body = slices.Clip(bytes.Clone(p.Body))
	k.Pages[question] = &p
	k.Size += len(p.Body)
}

func (k *keptPages) drop(question string) {
	if p := k.Pages[question]; p != nil {
		k.Size -= len(p.Body)
		delete(k.Pages, question)
	}
}
