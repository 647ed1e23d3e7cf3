package store

import (
	"context"
	"fmt"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// FactorCounts counts users by what is wrong with their second factor.
type FactorCounts struct {
	Users     int // who have one
	Elsewhere int // who have passkeys of other hosts only, and no app
	Sealed    int // whose app was sealed with another server key
}

// CountFactors reads all second factors. rpID is the host that passkeys are asked for.
func (s *Store) CountFactors(ctx context.Context, rpID string) (n FactorCounts, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		n = FactorCounts{}
		prefix := record.NewKey(record.TagFactor)
		for k, v := range r.Scan(prefix.All()) {
			var id secret.ID
			copy(id[:], k[len(prefix):]) // CheckAll finds keys of another size
			f, err := decodeFactor(id, v)
			if err != nil {
				return err
			}
			n.Users++
			if _, opens := s.appSecret(id, f); f.app != "" && !opens {
				n.Sealed++
			}
			if f.isElsewhere(rpID) {
				n.Elsewhere++
			}
		}
		return nil
	})
	if err != nil {
		return FactorCounts{}, fmt.Errorf("count second factors: %w", err)
	}
	return n, nil
}

// isElsewhere reports whether the factor is passkeys alone, none of them of this host.
func (f factor) isElsewhere(rpID string) bool {
	for _, p := range f.passkeys {
		if p.RPID == rpID {
			return false
		}
	}
	return f.app == ""
}
