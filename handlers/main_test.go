package handlers_test

import (
	"os"
	"testing"

	"tollhouse/store/storetest/must"
)

// Many of these tests wait for a poll, a stream or a tail: 16 s of processor time took 76.
func TestMain(m *testing.M) {
	must.ManyAtATime(4)
	os.Exit(m.Run())
}
