package secret

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// crowd is a queue for one processor, with a name for each caller.
type crowd struct {
	turns   *turns
	hashing *waiter
	names   map[*waiter]string
}

func newCrowd() *crowd {
	c := &crowd{turns: newTurns(1), names: map[*waiter]string{}}
	c.hashing = c.turns.enter(Caller{Source: "first"})
	<-c.hashing.admitted
	return c
}

func (c *crowd) come(user, source string, times int) {
	for range times {
		c.names[c.turns.enter(Caller{User: HashOf(user), Source: source})] = user + " at " + source
	}
}

// next ends the current turn and returns who has the next, or "" if the queue is empty.
func (c *crowd) next() string {
	c.turns.leave(c.hashing)
	for w := range c.names {
		if len(w.admitted) > 0 && <-w.admitted {
			c.hashing = w
			return c.names[w]
		}
	}
	return ""
}

// turnOf returns how many turns come before who's first.
func (c *crowd) turnOf(who string) int {
	for n := 1; ; n++ {
		switch c.next() {
		case who:
			return n
		case "":
			return -1
		}
	}
}

func TestTurnsAreShared(t *testing.T) {
	t.Parallel()
	cases := map[string]func(c *crowd){
		"with_strangers_who_try_ones_name": func(c *crowd) { c.come("mara", "a", hashQueueMax) },
		"with_one_user_from_one_source":    func(c *crowd) { c.come("many", "a", hashQueueMax) },
		"with_one_user_of_our_own_source":  func(c *crowd) { c.come("many", "home", hashQueueMax) },
		"with_one_user_from_many_sources": func(c *crowd) {
			for i := range hashQueueMax {
				c.come("many", fmt.Sprint("source", i), 1)
			}
		},
		"with_many_users_from_one_source": func(c *crowd) {
			for i := range hashQueueMax {
				c.come(fmt.Sprint("user", i), "a", 1)
			}
		},
	}
	for name, attack := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd()
			attack(c)
			c.next() // so that mara joins a later round
			attack(c)
			c.come("mara", "home", 1)
			if n := c.turnOf("mara at home"); n < 1 || n > 2 {
				t.Errorf("the newcomer behind a crowd has turn %d, want one of the first two", n)
			}
		})
	}
	t.Run("with_newcomers_that_do_not_stop", func(t *testing.T) {
		t.Parallel()
		c := newCrowd()
		served, want := 0, 3
		for i := range 4 * hashQueueMax {
			c.come("client's", "client", 1)
			for j := range 2 { // more than the turns
				c.come(fmt.Sprint("newcomer", i, j), fmt.Sprint("source", i, j), 1)
			}
			if c.next() == "client's at client" {
				served++
			}
		}
		if served < want {
			t.Errorf("a waiting client has %d turns while newcomers come, want at least %d", served, want)
		}
	})
	t.Run("a_lone_caller_has_every_turn", func(t *testing.T) {
		t.Parallel()
		c := newCrowd()
		c.come("mara", "home", hashQueueMax)
		for i := range hashQueueMax {
			if c.next() != "mara at home" {
				t.Fatalf("turn %d was not given to mara, who waits", i)
			}
		}
	})
}

func TestTurnsOfAFullQueue(t *testing.T) {
	t.Parallel()
	waiting := func(c *crowd) map[string]int {
		count := map[string]int{}
		for _, w := range c.turns.waiting {
			count[c.names[w]]++
		}
		return count
	}
	t.Run("the_user_with_most_waiters_loses_one", func(t *testing.T) {
		t.Parallel()
		c := newCrowd()
		c.come("many", "a", hashQueueMax)
		c.come("mara", "home", 1)
		if got := waiting(c); got["many at a"] != hashQueueMax-1 || got["mara at home"] != 1 {
			t.Errorf("waiting: %v, want mara instead of one of the many", got)
		}
	})
	t.Run("two_of_them_have_half_each", func(t *testing.T) {
		t.Parallel()
		c := newCrowd()
		c.come("many", "a", hashQueueMax)
		c.come("more", "b", 2*hashQueueMax)
		if got := waiting(c); got["many at a"] != hashQueueMax/2 || got["more at b"] != hashQueueMax/2 {
			t.Errorf("waiting: %v, want half and half", got)
		}
	})
	t.Run("of_one_source_the_user_who_has_most", func(t *testing.T) {
		t.Parallel()
		c := newCrowd()
		c.come("many", "client", hashQueueMax/2)
		for i := range hashQueueMax {
			c.come(fmt.Sprint("user", i), "client", 1)
		}
		if got := waiting(c); got["many at client"] > 1 {
			t.Errorf("waiting: %v, want one of each user", got)
		}
	})
}

func TestTurnsForgetCallersThatLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(runtime.GOMAXPROCS(0))
		gone, cancel := context.WithCancel(t.Context())
		outcomes := make(chan error)
		const callers = 200
		for i := range callers {
			go func() {
				ctx := t.Context()
				if i%3 == 0 {
					ctx = gone
				}
				done, err := turns.take(ctx, Caller{User: HashOf(fmt.Sprint(i)), Source: fmt.Sprint(i % 7)})
				if err == nil {
					time.Sleep(100 * time.Millisecond) // in synctest's time
					done()
				}
				outcomes <- err
			}()
		}
		synctest.Wait()
		cancel()
		var seen []error
		for range callers {
			err := <-outcomes
			for _, known := range []error{nil, ErrBusy, context.Canceled} {
				if errors.Is(err, known) && !slices.Contains(seen, known) {
					seen = append(seen, known)
				}
			}
		}
		if len(seen) != 3 {
			t.Errorf("outcomes %v, want turns, refusals and callers who are gone", seen)
		}
		if len(turns.users)+len(turns.sources)+len(turns.waiting) > 0 || turns.free != runtime.GOMAXPROCS(0) {
			t.Errorf("%d users, %d sources and %d who wait are kept, with %d turns free", len(turns.users), len(turns.sources), len(turns.waiting), turns.free)
		}
	})
}
