package webhooks

import (
	"context"
)

// slots bound the requests in flight. Endpoints whose last attempt was not accepted, or
// that have had none, share half of them: receivers that hang do not stop the others.
type slots struct{ all, unproven chan struct{} }

// accountsLeast is how many accounts it takes to use all slots, while several have
// endpoints: each has at most half. The receivers of an account may all hang at once after
// they were fast, and then the other accounts have the other half.
const accountsLeast = 2

func newSlots(n int) slots {
	n = max(n, 1)
	return slots{all: make(chan struct{}, n), unproven: make(chan struct{}, max(n/2, 1))}
}

// share returns the slots of one account.
func (s slots) share() slots { return newSlots(cap(s.all) / accountsLeast) }

// needed returns the channels in which a request takes a slot.
func (s slots) needed(proven bool) []chan struct{} {
	if proven {
		return []chan struct{}{s.all}
	}
	return []chan struct{}{s.unproven, s.all}
}

// slotsFor returns the channels in which a request of an account takes a slot: those of
// its account, unless no other account has endpoints, and then those of all.
func (s *Sender) slotsFor(account string, proven bool) []chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := s.slots.needed(proven)
	if share, known := s.shares[account]; known && len(s.shares) > 1 {
		return append(share.needed(proven), needed...)
	}
	return needed
}

// tryTake takes a slot if one is free. give returns it.
func (s *Sender) tryTake(account string, proven bool) (give func(), found bool) {
	ended, end := context.WithCancel(context.Background())
	end()
	give, err := s.take(ended, account, proven)
	return give, err == nil
}

// take waits for a slot. give returns it.
func (s *Sender) take(ctx context.Context, account string, proven bool) (give func(), err error) {
	needed := s.slotsFor(account, proven)
	for i, places := range needed {
		if err := put(ctx, places); err != nil {
			giveBack(needed[:i])
			return nil, err
		}
	}
	return func() { giveBack(needed) }, nil
}

func giveBack(taken []chan struct{}) {
	for _, places := range taken {
		<-places
	}
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
