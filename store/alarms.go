package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// Failure says that work on a schedule failed, such as a backup. The text is for the operator.
type Failure struct {
	At   time.Time
	Text string
}

// RecordOutcome keeps how the named work ended last: with a failure, or nil.
func (s *Store) RecordOutcome(ctx context.Context, work string, f *Failure) error {
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		if f == nil {
			return tx.Delete(record.AlarmKey(failurePrefix + work))
		}
		return tx.Set(record.AlarmKey(failurePrefix+work), encodeAlarm(mustJSON(f)), time.Time{})
	})
	if err != nil {
		return fmt.Errorf("record the outcome: %w", err)
	}
	return nil
}

// LastFailure returns how the named work failed last, or nil if it has succeeded since.
func (s *Store) LastFailure(ctx context.Context, work string) (f *Failure, err error) {
	err = s.db.View(ctx, func(r kv.Reader) error {
		f = nil
		v, err := r.Get(record.AlarmKey(failurePrefix + work))
		if record.IsAbsent(err) {
			return nil
		}
		if err == nil {
			v, err = decodeAlarm(v)
		}
		if err == nil && json.Unmarshal(v, &f) != nil {
			err = record.Damaged("a failure has another form")
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find the last failure: %w", err)
	}
	return f, nil
}

const failurePrefix = "failed:"

const alarmRecord = 1

func encodeAlarm(text []byte) []byte { return record.NewEncoder(alarmRecord).Str(string(text)).B }

// decodeAlarm returns the JSON text of a record.
func decodeAlarm(v []byte) ([]byte, error) {
	d := record.NewDecoder("alarm", alarmRecord, v)
	text := []byte(d.Str())
	if err := d.Done(); err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, record.Damaged("a note of the alarms is not JSON")
	}
	return text, nil
}

func mustJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("store: %v", err))
	}
	return text
}
