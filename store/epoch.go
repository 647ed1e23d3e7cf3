package store

import (
	"encoding/hex"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// A restored store may reuse versions that the data had before the restore,
// for other content: the positions of an import are derived from its lines. So every restore
// begins an epoch, which is part of the ETags of lists. Undoing a restore brings back
// the epoch before it.

const (
	metaEpoch   = "epoch" // name of the record of the epoch; a store that was never restored has none
	epochRecord = 1
)

// Epoch distinguishes the versions of a restored store from those before the restore. It
// is "" for a store that was never restored. It does not change while the store is open: a
// restore makes another.
func (s *Store) Epoch() string { return s.epoch }

func newEpoch() string {
	drawn := secret.NewTail(nil)
	return hex.EncodeToString(drawn[:])
}

func writeEpoch(tx kv.Txn, epoch string) error {
	return tx.Set(record.MetaKey(metaEpoch), record.NewEncoder(epochRecord).Str(epoch).B, time.Time{})
}

func readEpoch(r kv.Reader) (string, error) {
	v, err := r.Get(record.MetaKey(metaEpoch))
	if err != nil {
		return "", record.GoneIsNil(err)
	}
	return decodeEpoch(v)
}

func decodeEpoch(v []byte) (string, error) {
	d := record.NewDecoder("epoch", epochRecord, v)
	epoch := d.Str()
	return epoch, d.Done()
}
