package pgkv_test

import (
	"os"
	"testing"

	"tollhouse/store/storetest/must"
)

// These tests mostly wait for PostgreSQL, and some have time limits of their own.
func TestMain(m *testing.M) {
	must.ManyAtATime(2)
	must.FilesInMemory()
	os.Exit(m.Run())
}
