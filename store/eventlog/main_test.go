package eventlog_test

import (
	"os"
	"testing"

	"tollhouse/store/storetest/must"
)

// Many of these tests wait for the second after which a server looks at the others' logs.
func TestMain(m *testing.M) {
	must.ManyAtATime(4)
	os.Exit(m.Run())
}
