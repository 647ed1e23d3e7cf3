package store_test

import (
	"reflect"
	"testing"

	"tollhouse/store"
)

// What a caller uses of the log, it names as Store.Events: no method or field of the Store
// hides one of the log.
func TestAStoreEmbedsNothing(t *testing.T) {
	t.Parallel()
	s := reflect.TypeFor[store.Store]()
	for i := range s.NumField() {
		if f := s.Field(i); f.Anonymous {
			t.Errorf("Store embeds %s", f.Type)
		}
	}
}
