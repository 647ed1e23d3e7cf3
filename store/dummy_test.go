package store

import (
	"errors"
	"testing"

	"tollhouse/store/secret"
)

// A dummy that cannot be decoded would be refused faster.
func TestDummiesCanBeDecoded(t *testing.T) {
	t.Parallel()
	_, clientErr := decodeClient(dummyID, dummyClient)
	_, userErr := decodeUser(secret.ID{}, dummyUser)
	if err := errors.Join(clientErr, userErr); err != nil {
		t.Error(err)
	}
}
