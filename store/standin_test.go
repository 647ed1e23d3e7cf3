package store

import "testing"

// A stand-in that cannot be decoded would be refused faster.
func TestStandInsAreWhole(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]standIn{
		"client": standInClient, "client_head": standInClientHead, "user": standInUser, "user_head": standInUserHead,
		"family": standInFamily, "access_token": standInAccessToken, "refresh_token": standInRefreshToken,
	} {
		if err := s.decode(s.record); err != nil {
			t.Errorf("%s: decode() = %v", name, err)
		}
	}
}
