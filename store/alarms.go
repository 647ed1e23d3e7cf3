package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
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

// The names of the records.
const (
	failurePrefix   = "failed:"
	happeningPrefix = "happened:"
	listenerName    = "listener"
)

// LoadAlarms returns what the sender of alarms has saved, and the happenings that wait for it, by
// name.
func (s *Store) LoadAlarms(ctx context.Context) (records map[string][]byte, err error) {
	r := record.NewKey(record.TagAlarm).All()
	r.Limit = alarmRecordsMax
	err = s.db.View(ctx, func(rd kv.Reader) error {
		records = map[string][]byte{}
		for k, v := range rd.Scan(r) {
			name, _ := record.CutString(k[1:])
			text, err := decodeAlarm(v)
			if err != nil {
				return err
			}
			records[name] = text
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load alarms: %w", err)
	}
	return records, nil
}

const (
	alarmRecordsMax = 2000
	happeningsMax   = 500 // that wait for a sender
	// listenerFor is how long after the last look of a sender happenings are kept for one.
	listenerFor = 7 * 24 * time.Hour
)

// SaveAlarms writes records in one transaction. A nil value removes one.
func (s *Store) SaveAlarms(ctx context.Context, records map[string][]byte) error {
	err := s.db.Update(ctx, func(tx kv.Txn) error {
		for name, text := range records {
			var err error
			if text == nil {
				err = tx.Delete(record.AlarmKey(name))
			} else {
				err = tx.Set(record.AlarmKey(name), encodeAlarm(text), time.Time{})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("save alarms: %w", err)
	}
	return nil
}

// AlarmName returns a name for the queue of a URL, which reveals nothing of it.
func (s *Store) AlarmName(url string) string { return s.key.MAC("alarm", url) }

// Happening is something that happened once and that operators want to know.
type Happening struct {
	Alarm   string // one of the constants below
	Subject string // an id
	At      time.Time
}

// The happenings.
const (
	HappenedTokens     = "tokens"     // a refresh token or a code came twice; of a client
	HappenedPrivileges = "privileges" // of a user or a client, who got more rights
	HappenedGuessing   = "guessing"   // of second factors; of a user
)

// OnHappening sets what is called after each happening. It must not block. Without it a happening
// is kept for a sender on the same store, if there is one.
func (s *Store) OnHappening(f func(Happening)) { s.onHappening.Store(&f) }

// happened is called once the transaction is committed. It is never in the way of the caller's
// outcome.
func (s *Store) happened(ctx context.Context, alarm, subject string) {
	h := Happening{Alarm: alarm, Subject: subject, At: s.Now()}
	if f := s.onHappening.Load(); f != nil {
		(*f)(h)
		return
	}
	if err := s.KeepHappening(ctx, h); err != nil {
		s.log.Warn("happening not kept for the alarms", "alarm", alarm, "err", err)
	}
}

// reused returns the refusal of a token or code. If it came twice, so that a family was revoked,
// that has happened.
func (s *Store) reused(ctx context.Context, refusal error, client string) error {
	if _, is := errors.AsType[recorded](refusal); is {
		s.happened(ctx, HappenedTokens, client)
	}
	return refusal
}

// KeepHappening keeps a happening for the sender of alarms, unless none has looked for a week.
func (s *Store) KeepHappening(ctx context.Context, h Happening) error {
	isHeard := false
	waiting := append(record.NewKey(record.TagAlarm), happeningPrefix...)
	err := s.db.View(ctx, func(r kv.Reader) error {
		isHeard = false
		v, err := r.Get(record.AlarmKey(listenerName))
		if record.IsAbsent(err) {
			return nil
		}
		var at time.Time
		if err == nil {
			v, err = decodeAlarm(v)
		}
		if err == nil && json.Unmarshal(v, &at) != nil {
			err = record.Damaged("the time of a sender of alarms is not valid")
		}
		if isHeard = err == nil && h.At.Sub(at) < listenerFor; !isHeard {
			return err
		}
		n := 0
		for range r.Scan(kv.Range{Lo: waiting, Hi: record.After(waiting), KeysOnly: true, Limit: happeningsMax}) {
			n++
		}
		isHeard = n < happeningsMax
		return nil
	})
	if err != nil || !isHeard {
		return err
	}
	return s.SaveAlarms(ctx, map[string][]byte{secret.Name(nil, happeningPrefix): mustJSON(h)})
}

// TakeHappenings returns the happenings that wait, by the names of their records. The sender
// removes those together with what came of them.
func (s *Store) TakeHappenings(ctx context.Context) (map[string]Happening, error) {
	prefix := append(record.NewKey(record.TagAlarm), happeningPrefix...)
	var found map[string]Happening
	err := s.db.View(ctx, func(r kv.Reader) error {
		found = map[string]Happening{}
		for k, v := range r.Scan(kv.Range{Lo: prefix, Hi: record.After(prefix), Limit: happeningsMax}) {
			name, _ := record.CutString(k[1:])
			text, err := decodeAlarm(v)
			if err != nil {
				return err
			}
			var h Happening
			if json.Unmarshal(text, &h) != nil {
				return record.Damaged("a happening has another form")
			}
			found[name] = h
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("take happenings: %w", err)
	}
	return found, nil
}

// ListenForHappenings says that a sender looks for happenings.
func (s *Store) ListenForHappenings(ctx context.Context) error {
	return s.SaveAlarms(ctx, map[string][]byte{listenerName: mustJSON(s.Now())})
}

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
