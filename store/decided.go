package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// decided is the answer to a consent screen. It stays until the screen expires, so that the
// same answer again has the same result: a person who clicks twice while the client's page
// loads must not lose the first result.
type decided struct {
	at, ends time.Time
	answer   answer
	nonce    secret.Nonce // of the code, if the answer was allow
}

type answer byte

const (
	answerAllow answer = iota + 1
	answerDeny
)

const decidedRecord = 1

// codeOf derives the code of a screen that was allowed, as a refresh token's successors are
// derived: neither the store nor the ticket yields it without the server key. A predictable
// source has no ticket in it, so that the third code of a run does not depend on how many
// screens were shown.
func (s *Store) codeOf(ticket string, nonce secret.Nonce) secret.Token {
	if s.random != nil {
		ticket = ""
	}
	return s.key.Code(ticket, nonce)
}

// decide stores the answer within tx, or returns the earlier one.
func decide(tx kv.Txn, c Consent, d decided) (earlier decided, again bool, err error) {
	key := record.DecidedKey(secret.HashOf(c.Ticket))
	earlier, err = record.Read(tx, key, struct{}{}, decodeDecided)
	switch {
	case errors.Is(err, record.ErrNotFound):
		return d, false, tx.Set(key, encodeDecided(d), d.ends)
	case err == nil && earlier.answer != d.answer:
		return earlier, true, record.ErrReplayed
	}
	return earlier, true, err
}

// BeginForm reserves a form of an operator until ends, for all servers of the store, so that
// it is not done twice. It is kept as a screen that was allowed. A form may revoke something,
// so it is accepted while anything can be written. Errors: ErrExists.
func (s *Store) BeginForm(ctx context.Context, operator User, form string, ends time.Time) error {
	key, now := formKey(operator, form), s.now()
	err := record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error {
		earlier, err := record.Read(tx, key, struct{}{}, decodeDecided)
		switch {
		case err == nil && now.Before(earlier.ends):
			return record.ErrExists
		case err != nil && !errors.Is(err, record.ErrNotFound):
			return err
		}
		return tx.Set(key, encodeDecided(decided{at: now, ends: ends, answer: answerAllow}), ends)
	})
	if err != nil {
		return fmt.Errorf("begin form: %w", err)
	}
	return nil
}

// ForgetForm lets a form be sent again that was begun and failed.
func (s *Store) ForgetForm(ctx context.Context, operator User, form string) error {
	err := record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error { return tx.Delete(formKey(operator, form)) })
	if err != nil {
		return fmt.Errorf("forget form: %w", err)
	}
	return nil
}

// formKey keeps the forms of different operators apart, and apart from tickets.
func formKey(operator User, form string) record.Key {
	return record.DecidedKey(secret.HashOf("desk form\x00" + operator.Subject() + "\x00" + form))
}

func encodeDecided(d decided) []byte {
	return record.NewEncoder(decidedRecord).Time(d.at).Time(d.ends).Byte(byte(d.answer)).Nonce(d.nonce).B
}

func decodeDecided(_ struct{}, v []byte) (decided, error) {
	d := record.NewDecoder("decided ticket", decidedRecord, v)
	r := decided{at: d.Time(), ends: d.Time(), answer: answer(d.Byte()), nonce: d.Nonce()}
	if r.answer != answerAllow && r.answer != answerDeny {
		d.Fail("has no answer")
	}
	return r, d.Done()
}
