package web

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"tollhouse/store"
	"tollhouse/store/secret"
)

func TestAuditLinesNameTheOperatorOfTheRequest(t *testing.T) {
	t.Parallel()
	operator := store.User{ID: secret.NewID(nil)}
	facts := newFacts(time.Now(), netip.MustParseAddr("192.0.2.1"), nil)
	ctx := context.WithValue(t.Context(), store.RequestKey, facts)
	if id := By(ctx).Actor.OperatorID; id != "" {
		t.Errorf("OperatorID = %q before an operator is known, want none", id)
	}
	NoteOperator(ctx, operator)
	if got := By(ctx); got.Actor.OperatorID != operator.Subject() || got.Source != "192.0.2.1" {
		t.Errorf("By() = %+v, want the operator %s and the address", got, operator.Subject())
	}
}
