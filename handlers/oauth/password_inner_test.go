package oauth

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"tollhouse/handlers/throttle"
	"tollhouse/store"
	"tollhouse/store/record"
	"tollhouse/store/secret"
)

// TestCallersThatLeaveAreCharged: a caller that leaves while its password waits for a hash
// is charged. One that the busy server refuses is not.
func TestCallersThatLeaveAreCharged(t *testing.T) {
	t.Parallel()
	s := &Server{throttle: throttle.New(time.Now)}
	for name, leaves := range map[string]bool{"leaves": true, "is_refused": false} {
		t.Run(name, func(t *testing.T) {
			a := attempt{Attempt: throttle.Attempt{Name: "mara", Source: netip.MustParseAddr("2001:db8::1")}}
			if leaves {
				a.Source = netip.MustParseAddr("192.0.2.1")
			}
			for range 30 {
				ctx, leave := context.WithCancel(t.Context())
				_, _, err := s.tryThrottled(ctx, a, func(secret.Caller) (store.User, error) {
					if leaves {
						leave()
					}
					return store.User{}, record.ErrBusy
				}, nil)
				if leave(); !errors.Is(err, record.ErrBusy) {
					t.Fatalf("tryThrottled() = %v, want the outcome of the attempt", err)
				}
			}
			if _, wait, _ := s.throttle.Begin(a.Attempt); (wait > 0) != leaves {
				t.Errorf("the next attempt waits %s", wait)
			}
		})
	}
}
