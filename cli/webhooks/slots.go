package webhooks

import (
	"context"
)

// slots bound the requests in flight. Endpoints whose last attempt was not accepted, or
// that have had none, share half of them: receivers that hang do not stop the others.
type slots struct{ all, unproven chan struct{} }

func newSlots(n int) slots {
	n = max(n, 1)
	return slots{all: make(chan struct{}, n), unproven: make(chan struct{}, max(n/2, 1))}
}

// tryTake takes a slot if one is free. give returns it.
func (s *slots) tryTake(proven bool) (give func(), found bool) {
	ended, end := context.WithCancel(context.Background())
	end()
	give, err := s.take(ended, proven)
	return give, err == nil
}

// take waits for a slot. give returns it.
func (s *slots) take(ctx context.Context, proven bool) (give func(), err error) {
	if !proven {
		if err := put(ctx, s.unproven); err != nil {
			return nil, err
		}
	}
	rest := func() {
		if !proven {
			<-s.unproven
		}
	}
	if err := put(ctx, s.all); err != nil {
		rest()
		return nil, err
	}
	return func() { <-s.all; rest() }, nil
}

// put waits for a place in a channel. It takes a free one even if ctx is done.
func put(ctx context.Context, places chan struct{}) error {
	select {
	case places <- struct{}{}:
		return nil
	default:
	}
	select {
	case places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
