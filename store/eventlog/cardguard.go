package eventlog

import (
	"context"
	"errors"
	"log/slog"

	"tollhouse/store/record"
	"tollhouse/store/snapshot"
)

// CardGuard says what to do with card numbers and secrets in a write.
type CardGuard string

// The modes of the guard. The zero CardGuard means refuse.
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
	return "", record.Invalid("card-guard", "use refuse, warn or off", "unknown mode")
}

// guard refuses or logs data that must never be stored. Errors: *snapshot.Error with
// SensitiveField.
func (l *Log) guard(ctx context.Context, owner, kind string, v snapshot.Value) error {
	mode := l.policy.Load().cardGuard
	if mode == CardGuardOff {
		return nil
	}
	err := snapshot.FindSensitive(v)
	if err == nil || mode != CardGuardWarn {
		return err
	}
	var e *snapshot.Error
	errors.As(err, &e)
	l.log.LogAttrs(ctx, slog.LevelWarn, "sensitive data recorded",
		slog.String("account_id", owner), slog.String("kind", kind), slog.String("path", e.Path))
	return nil
}

// CheckText guards a text that events of the server's own will contain. Errors:
// *snapshot.Error with SensitiveField.
func (l *Log) CheckText(ctx context.Context, owner, kind, member, text string) error {
	return l.guard(ctx, owner, kind, snapshot.ObjectOf(snapshot.Member{Name: member, Value: snapshot.Text(text)}))
}
