package store

import (
	"context"
	"errors"
	"log/slog"

	"tollhouse/store/snapshot"
)

// CardGuard says what happens to a write that holds card numbers or secrets.
type CardGuard string

// The modes of the guard. The zero CardGuard refuses.
const (
	CardGuardRefuse CardGuard = "refuse"
	CardGuardWarn   CardGuard = "warn" // recorded, with a line in the log
	CardGuardOff    CardGuard = "off"
)

// ParseCardGuard reads a mode. Errors: *InvalidError.
func ParseCardGuard(text string) (CardGuard, error) {
	switch mode := CardGuard(text); mode {
	case CardGuardRefuse, CardGuardWarn, CardGuardOff:
		return mode, nil
	}
	return "", invalid("card-guard", "use refuse, warn or off", "there is no mode of that name")
}

// guard refuses, or reports, what must never be kept. Errors: *snapshot.Error
// with SensitiveField.
func (s *Store) guard(ctx context.Context, owner, kind string, v snapshot.Value) error {
	if s.cardGuard == CardGuardOff {
		return nil
	}
	err := snapshot.FindSensitive(v)
	if err == nil || s.cardGuard != CardGuardWarn {
		return err
	}
	var e *snapshot.Error
	errors.As(err, &e)
	s.log.LogAttrs(ctx, slog.LevelWarn, "sensitive data recorded",
		slog.String("account_id", owner), slog.String("kind", kind), slog.String("path", e.Path))
	return nil
}
