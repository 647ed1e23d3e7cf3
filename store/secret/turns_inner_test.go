package secret

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/store/storetest/must"
)

// crowd is a queue for one processor, with a name for each caller.
type crowd struct {
	turns   *turns
	hashing *waiter
	names   map[*waiter]string
}

func newCrowd() *crowd {
	c := &crowd{turns: newTurns(1), names: map[*waiter]string{}}
	c.hashing = c.turns.enter(Caller{}, false)
	<-c.hashing.admitted
	return c
}

func strangerOf(user, source string) Caller {
	return Caller{Stranger: true, Shares: []Share{{Key: "user " + user}, {Key: "source " + source}}}
}

func (c *crowd) come(user, source string, times int) {
	for range times {
		c.enter(user+" at "+source, strangerOf(user, source))
	}
}

func (c *crowd) enter(name string, of Caller) { c.names[c.turns.enter(of, false)] = name }

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

// Promise (Credentials, memory, connections): starving sign-ins by one user's right password, or
// many usernames from one source
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
		for _, w := range c.turns.strangers.waiting {
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

// known is a caller with a known browser, from a source of its own.
func known(user, browser, source string) Caller {
	return Caller{Shares: []Share{{Key: "user " + user}, {Key: "browser " + browser}, {Key: "source " + source}}}
}

// byClient is a caller of the password grant.
func byClient(client, user, address string) Caller {
	return Caller{Shares: []Share{{Key: "user " + client + user}, {Key: "client " + client}, {Key: "source " + client + address}}}
}

// TestTurnsOfProvedCallers has one processor. Crowds keep coming, each as large as a queue.
//
// Promise (Credentials, memory, connections): strangers, a stolen device cookie or a leaked client
// secret in the queue for hashing
func TestTurnsOfProvedCallers(t *testing.T) {
	t.Parallel()
	manyStrangers := func(c *crowd, round int) {
		for i := range 2 * hashQueueMax {
			c.come(fmt.Sprint("user", round, i), fmt.Sprint("source", round, i), 1)
		}
	}
	stolenCookie := func(c *crowd, round int) {
		for i := range 2 * hashQueueMax {
			c.enter("thief", known("robbed", "stolen", fmt.Sprint("source", round, i)))
		}
	}
	leakedSecret := func(c *crowd, round int) {
		for i := range 2 * hashQueueMax {
			c.enter("thief", byClient("leaked", fmt.Sprint("user", round, i), "thief's"))
		}
	}
	cases := map[string]struct {
		crowd  func(c *crowd, round int)
		caller Caller
	}{
		"a_known_browser_among_strangers":                {manyStrangers, known("mara", "hers", "home")},
		"a_client_among_strangers":                       {manyStrangers, byClient("backend", "mara", "server")},
		"the_operator_among_strangers":                   {manyStrangers, Caller{}},
		"a_known_browser_beside_a_stolen_cookie":         {stolenCookie, known("mara", "hers", "home")},
		"another_browser_of_who_was_robbed":              {stolenCookie, known("robbed", "other", "home")},
		"a_client_beside_a_stolen_cookie":                {stolenCookie, byClient("backend", "mara", "server")},
		"a_known_browser_beside_a_leaked_secret":         {leakedSecret, known("mara", "hers", "home")},
		"another_client_beside_a_leaked_secret":          {leakedSecret, byClient("backend", "mara", "server")},
		"the_client_whose_secret_leaked_from_its_server": {leakedSecret, byClient("leaked", "mara", "server")},
		"a_stranger_beside_a_leaked_secret":              {leakedSecret, strangerOf("mara", "home")},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCrowd()
			for round := range 10 {
				test.crowd(c, round)
				c.enter("honest", test.caller)
				turn := 0
				for who := ""; who != "honest"; turn++ {
					if who = c.next(); turn > provedTurns+1 {
						t.Fatalf("round %d: no turn among the first %d", round, turn)
					}
				}
			}
		})
	}
	t.Run("strangers_have_a_quarter", func(t *testing.T) {
		t.Parallel()
		c := newCrowd()
		strangers := 0
		for round := range 40 {
			leakedSecret(c, round)
			c.come("mara", "home", 1)
			if c.next() == "mara at home" {
				strangers++
			}
		}
		if strangers != 10 {
			t.Errorf("strangers have %d turns of 40, want 10", strangers)
		}
	})
}

// TestTurnsOfNetworks: a network with many sources has the turns of some, and a source with
// failures lets others pass.
//
// Promise (Credentials, memory, connections): an IPv6 /56 or /48 as many sources: failures, turns,
// connections, bodies, HTTP/2 requests
func TestTurnsOfNetworks(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	within := func(i, turns int, network string) Caller {
		return Caller{Stranger: true, Shares: []Share{{Key: fmt.Sprint("user ", network, i)}, {Key: fmt.Sprint("source ", network, i)}, {Key: network, Turns: turns}}}
	}
	for _, turns := range []int{1, 8, 32} {
		t.Run(fmt.Sprintf("%d_turns_in_a_round", turns), func(t *testing.T) {
			t.Parallel()
			c := newCrowd()
			network, alone, waits := 0, 0, false
			for range 400 {
				for len(c.turns.strangers.waiting) < hashQueueMax-1 { // never full
					network++
					c.enter("network", within(network, turns, "network"))
				}
				if !waits {
					c.come("mara", "home", 1)
				}
				if waits = c.next() != "mara at home"; !waits {
					alone++
				}
			}
			if want := 400 / (turns + 1); alone < want-1 || alone > want+want/2+1 {
				t.Errorf("a source beside the network has %d turns of 400, want about %d", alone, want)
			}
		})
	}
	t.Run("a_full_queue_has_a_place_for_a_source_without_failures", func(t *testing.T) {
		t.Parallel()
		c := newCrowd()
		flood := func() {
			for i := range 4 * hashQueueMax { // more sources than places
				source := strangerOf(fmt.Sprint("user", i), fmt.Sprint("source", i))
				source.Shares[1].Pass = 30
				c.enter("flood", source)
			}
		}
		for range 4 * hashQueueMax { // each has had a turn
			flood()
			c.next()
		}
		c.come("mara", "home", 1)
		flood()
		if n := c.turnOf("mara at home"); n < 1 || n > 2 {
			t.Errorf("the source without failures has turn %d", n)
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
				done, err := turns.take(ctx, Caller{Stranger: i%2 == 0, Shares: []Share{{Key: fmt.Sprint(i)}, {Key: fmt.Sprint("source", i%7)}}}, i%5 == 0)
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
		for _, l := range []line{turns.proved, turns.strangers} {
			if len(l.shares)+len(l.waiting) > 0 || turns.free != runtime.GOMAXPROCS(0) {
				t.Errorf("%d shares and %d who wait are kept, with %d turns free", len(l.shares), len(l.waiting), turns.free)
			}
		}
	})
}

// TestLargeTurns: the memory of 64 dear hashes must not be taken at the same time.
//
// Promise (Platform §10): of checks above 19 MiB one runs at a time, others one on each processor
// beside it; all wait in one queue, two seconds at most
func TestLargeTurns(t *testing.T) {
	t.Parallel()
	for name, isLarge := range map[string]func(i int) bool{
		"all_large": func(int) bool { return true },
		"mixed":     func(i int) bool { return i%2 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const processors, callers = 4, hashQueueMax
				turns := newTurns(processors)
				var running, large, mostRunning, mostLarge, busy, done atomic.Int32
				began := time.Now()
				var all sync.WaitGroup
				for i := range callers {
					all.Go(func() {
						end, err := turns.take(t.Context(), Caller{Shares: []Share{{Key: fmt.Sprint(i)}}}, isLarge(i))
						if waited := time.Since(began); errors.Is(err, ErrBusy) {
							busy.Add(1)
							if waited != hashWaitMax {
								t.Errorf("one was refused after %v", waited)
							}
							return
						}
						must.Do(t, err)
						if now := running.Add(1); now > mostRunning.Load() {
							mostRunning.Store(now)
						}
						if isLarge(i) {
							if now := large.Add(1); now > mostLarge.Load() {
								mostLarge.Store(now)
							}
						}
						time.Sleep(100 * time.Millisecond) // in synctest's time
						if isLarge(i) {
							large.Add(-1)
						}
						running.Add(-1)
						done.Add(1)
						end()
					})
				}
				all.Wait()
				want := int32(1)
				if name == "mixed" {
					want = processors
				}
				if mostLarge.Load() != 1 || mostRunning.Load() != want {
					t.Errorf("%d large ones ran at the same time, and %d of all, want 1 and %d", mostLarge.Load(), mostRunning.Load(), want)
				}
				// 20 large ones fit two seconds; the small ones all do.
				if least := int32(20); done.Load() < least || busy.Load()+done.Load() != callers {
					t.Errorf("%d had a turn and %d were refused, want %d turns at least", done.Load(), busy.Load(), least)
				}
				if turns.free != processors || turns.large || turns.length() > 0 {
					t.Errorf("afterwards %d turns are free, large %t, %d wait", turns.free, turns.large, turns.length())
				}
			})
		})
	}
}

// TestLargeTurnsLetOthersPass: a large one that must wait keeps nobody else from a free processor,
// and has its turn when the other large one ends.
func TestLargeTurnsLetOthersPass(t *testing.T) {
	t.Parallel()
	turns := newTurns(2)
	first := turns.enter(Caller{}, true)
	second := turns.enter(Caller{}, true)
	small := turns.enter(Caller{}, false)
	if len(first.admitted) != 1 || len(second.admitted) != 0 || len(small.admitted) != 1 {
		t.Fatal("the small one waits behind the large one")
	}
	turns.leave(small)
	if len(second.admitted) != 0 {
		t.Error("two large ones run")
	}
	turns.leave(first)
	if len(second.admitted) != 1 {
		t.Error("the second large one has no turn")
	}
	turns.leave(second)
	if turns.free != 2 || turns.large {
		t.Errorf("%d turns are free, large %t", turns.free, turns.large)
	}
}
