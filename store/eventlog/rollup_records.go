package eventlog

import (
	"errors"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// countedRecord is the version of the whole rollup: one of another version is made
// again.
const (
	countedRecord = 2
	dirtyRecord   = 1
)

// allAccounts is the owner of the counts of all accounts.
const allAccounts = ""

func hourKey(owner string, hour uint32) record.Key {
	return record.CountsKey(owner, byte(ByHour)).Uint32(hour)
}

func dayKey(owner string, hour uint32) record.Key {
	return record.CountsKey(owner, byte(ByDay)).Uint32(hour / hoursOfDay)
}

func encodeMark(raised uint64) []byte { return record.NewEncoder(dirtyRecord).Uint(raised).B }

func decodeMark(v []byte) (raised uint64, err error) {
	d := record.NewDecoder("dirty hour", dirtyRecord, v)
	raised = d.Uint()
	return raised, d.Done()
}

// readMark returns 0 for an hour that is not dirty.
func readMark(r kv.Reader, k record.Key) (uint64, error) {
	v, err := r.Get(k)
	if err != nil {
		return 0, record.GoneIsNil(err)
	}
	return decodeMark(v)
}

// counted says how far an account's events are counted.
type counted struct {
	position record.Position // of the last one
	events   uint64          // number of events in the counts
	stopped  bool            // the account is being erased; for all accounts: the rollup is
	writes   uint64          // of this record; for all accounts: rollups begun and accounts erased
}

func encodeCounted(c counted) []byte {
	return record.NewEncoder(countedRecord).Position(c.position).Uint(c.events).Bool(c.stopped).Uint(c.writes).B
}

func decodeCounted(v []byte) (counted, error) {
	d := record.NewDecoder("counted", countedRecord, v)
	c := counted{position: d.Position(), events: d.Uint(), stopped: d.Bool(), writes: d.Uint()}
	return c, d.Done()
}

func readCounted(r kv.Reader, owner string) (counted, error) {
	v, err := r.Get(record.CountedKey(owner))
	if err != nil {
		return counted{}, record.GoneIsNil(err)
	}
	return decodeCounted(v)
}

// writeCounted stores c with a write more, and returns it.
func writeCounted(tx kv.Txn, owner string, c counted) (counted, error) {
	c.writes++
	return c, tx.Set(record.CountedKey(owner), encodeCounted(c), time.Time{})
}

// errCountsMoved means that another process has counted in the meantime.
var errCountsMoved = errors.New("the counts have moved")

// mustBeAt guards an Update against the counts of another process. Errors:
// errCountsMoved.
func mustBeAt(r kv.Reader, owner string, seen counted) error {
	now, err := readCounted(r, owner)
	if err == nil && now != seen {
		return errCountsMoved
	}
	return err
}

// readRollup reads the record of all accounts. One that is absent, damaged or of
// another version is that of a rollup to be removed.
func readRollup(r kv.Reader) (counted, error) {
	v, err := r.Get(record.CountedKey(allAccounts))
	if err == nil {
		var c counted
		if c, err = decodeCounted(v); err == nil {
			return c, nil
		}
	}
	if record.IsAbsent(err) || errors.Is(err, kv.ErrCorrupt) {
		return counted{stopped: true}, nil
	}
	return counted{}, err
}

// CheckCountsRecord decodes a record of the rollup. Errors: ErrCorrupt.
func CheckCountsRecord(tag byte, v []byte) (err error) {
	switch tag {
	case record.TagCounts:
		_, err = decodeTally(v)
	case record.TagCounted:
		_, err = decodeCounted(v)
	case record.TagDirtyHour:
		_, err = decodeMark(v)
	}
	return err
}
