package web

import (
	lru "github.com/hashicorp/golang-lru/v2"
)

// NewLRU returns a cache of size entries, which must be positive.
func NewLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic("web: " + err.Error()) // only if the size is not positive
	}
	return cache
}
