package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"tollhouse/store/record"
)

// newestOwnersRead bounds the accounts that NewestOwners reads.
const newestOwnersRead = 10_000

var errEnough = errors.New("enough was read")

// NewestOwners returns up to n accounts with the newest events, the newest first. It reads the
// heads of 10,000 logs, by account, and no more.
func (l *Log) NewestOwners(ctx context.Context, n int) (owners []string, err error) {
	type head struct {
		owner string
		last  record.Position
	}
	var newest []head
	read := 0
	err = l.eachHead(ctx, func(owner string, v []byte) error {
		if read == newestOwnersRead {
			return errEnough
		}
		read++
		h, err := decodeEventHead(v)
		if err != nil || len(newest) == n && h.last.Compare(newest[n-1].last) <= 0 {
			return err
		}
		newest = append(newest, head{owner, h.last})
		slices.SortFunc(newest, func(a, b head) int { return cmp.Or(b.last.Compare(a.last), cmp.Compare(a.owner, b.owner)) })
		newest = newest[:min(len(newest), n)]
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("newest accounts: %w", err)
	}
	for _, h := range newest {
		owners = append(owners, h.owner)
	}
	return owners, nil
}
