package handlers

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tollhouse/store/eventlog"
)

const (
	keptSizeMax     = 4 << 20   // bytes of all kept pages: some fifty of 100 events
	keptPageSizeMax = 256 << 10 // bytes of one
	keptAsked       = 64        // questions remembered, by hash; with more of them a page seldom repeats
)

// keptPages keeps pages that are requested more than once while the log does not change.
// A page depends on nothing but its question and the version of the log, and every change
// raises the version: a page is kept exactly as long as its entity tag is valid.
type keptPages struct {
	seed maphash.Seed

	mu    sync.Mutex
	pages map[string]*keptPage // by question
	asked [keptAsked]uint64    // hashes of questions and versions
	size  int                  // of all bodies
}

// keptPage is never modified.
type keptPage struct {
	version eventlog.Version
	header  http.Header
	body    []byte
}

func newKeptPages() *keptPages {
	return &keptPages{seed: maphash.MakeSeed(), pages: map[string]*keptPage{}}
}

// question distinguishes the query from all others.
func (q *eventQuery) question(owner, path, as string) string {
	texts := []string{owner, path, as, q.cursor}
	for _, pair := range q.pairs {
		texts = append(texts, pair.name, pair.value)
	}
	var b strings.Builder
	b.Grow(256)
	for _, text := range texts {
		b.WriteString(strconv.Itoa(len(text)))
		b.WriteByte(':')
		b.WriteString(text)
	}
	return b.String()
}

// find returns the page that was kept for a question, whatever its version, or nil.
func (k *keptPages) find(question string) *keptPage {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pages[question]
}

// keep keeps a copy of the page if the same one was made before. It replaces that of
// another version.
func (k *keptPages) keep(question string, p keptPage) {
	if len(p.body) > keptPageSizeMax {
		return
	}
	key := binary.BigEndian.AppendUint64(append([]byte(question), p.version.Head[:]...), p.version.Generation)
	hash := maphash.Bytes(k.seed, key)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(question)
	if asked := &k.asked[hash%keptAsked]; *asked != hash {
		*asked = hash
		return
	}
	for other := range k.pages { // in random order
		if k.size+len(p.body) <= keptSizeMax {
			break
		}
		k.drop(other)
	}
	p.body = slices.Clip(bytes.Clone(p.body))
	k.pages[question] = &p
	k.size += len(p.body)
}

func (k *keptPages) drop(question string) {
	if p := k.pages[question]; p != nil {
		k.size -= len(p.body)
		delete(k.pages, question)
	}
}
