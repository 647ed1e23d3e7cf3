package handlers_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"tollhouse/handlers"
	"tollhouse/store/storetest"
)

// another returns a house over the same store, as another process has it.
func (h *house) another(change ...func(*handlers.Config)) *house {
	other := *h
	other.guesses = nil
	other.open(h.Store, change...)
	return &other
}

// tables open a table as another process of the test does.
var tables = map[string]func(*testing.T) func(now func() time.Time) handlers.Guesses{
	"in_memory": func(*testing.T) func(func() time.Time) handlers.Guesses {
		var one *storetest.Guesses
		return func(now func() time.Time) handlers.Guesses {
			if one == nil {
				one = storetest.NewGuesses(now)
			}
			return one
		}
	},
	"in_postgresql": func(t *testing.T) func(func() time.Time) handlers.Guesses {
		open := storetest.GuessesInPostgres(t)
		return func(now func() time.Time) handlers.Guesses { return open(now) }
	},
}

// pairOf returns two processes on one store, whose throttles have one table; or each has
// its memory, if open is nil.
func pairOf(t *testing.T, open func(now func() time.Time) handlers.Guesses) [2]*house {
	t.Helper()
	sharing := func(c *handlers.Config) {
		if open != nil {
			c.Guesses = open(c.Store.Now)
		}
	}
	h := newHouse(t, sharing)
	return [2]*house{h, h.another(sharing)}
}

// fakePair is pairOf over a table in memory.
func fakePair(t *testing.T) ([2]*house, *storetest.Guesses) {
	t.Helper()
	houses := pairOf(t, tables["in_memory"](t))
	return houses, houses[0].guesses.(*storetest.Guesses)
}

func isJudged(a answer) bool {
	return a.StatusCode != http.StatusTooManyRequests && a.StatusCode != http.StatusServiceUnavailable
}

func TestProcessesShareTheThrottle(t *testing.T) {
	t.Parallel()
	for name, table := range tables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSharedThrottle(t, table)
		})
	}
}

func testSharedThrottle(t *testing.T, table func(*testing.T) func(func() time.Time) handlers.Guesses) {
	// Each of them makes one attempt, at a house and with a number that is its own.
	kinds := map[string]struct {
		try   func(t *testing.T, h *house, n int) answer
		limit int
	}{
		"of_a_user_at_the_form": {limit: 10, try: func(t *testing.T, h *house, n int) answer {
			return h.stranger(t).signIn(t, "mara", tooLong, from(address(n)))
		}},
		"of_a_user_by_the_grant": {limit: 10, try: func(t *testing.T, h *house, _ int) answer {
			return h.grant(t, "mara", tooLong)
		}},
		"of_a_source": {limit: 30, try: func(t *testing.T, h *house, n int) answer {
			return h.stranger(t).signIn(t, fmt.Sprint("name", n), tooLong)
		}},
		"of_a_source_that_guesses_secrets": {limit: 30, try: func(t *testing.T, h *house, n int) answer {
			return h.token(t, url.Values{"grant_type": {"password"}, "client_id": {fmt.Sprint("client", n)}})
		}},
		"of_a_client": {limit: 300, try: func(t *testing.T, h *house, n int) answer {
			return h.grant(t, fmt.Sprint("name", n), tooLong)
		}},
	}
	for name, kind := range kinds {
		judged := func(t *testing.T, houses [2]*house) (judged int) {
			for i := range 2*kind.limit + 20 {
				if isJudged(kind.try(t, houses[i%2], i)) {
					judged++
				}
			}
			return judged
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := judged(t, pairOf(t, table(t))); got != kind.limit {
				t.Errorf("two processes judged %d, want the %d of one", got, kind.limit)
			}
		})
		t.Run(name+"/each_for_itself_would_admit_twice_as_many", func(t *testing.T) {
			t.Parallel()
			if got := judged(t, pairOf(t, nil)); got != 2*kind.limit {
				t.Errorf("two memories judged %d, want %d", got, 2*kind.limit)
			}
		})
	}
	t.Run("of_a_known_browser", func(t *testing.T) {
		t.Parallel()
		houses := pairOf(t, table(t))
		cookie := houses[0].remembered(t, 1)[0]
		judged := 0
		for i := range 40 {
			if isJudged(houses[i%2].signInWith(t, cookie, tooLong, "203.0.113.2")) {
				judged++
			}
		}
		if judged != 10 {
			t.Errorf("%d guesses were judged, want 10", judged)
		}
	})
	t.Run("a_right_password_at_one_is_forgiveness_at_all", func(t *testing.T) {
		t.Parallel()
		houses := pairOf(t, table(t))
		for range 9 {
			wantJudged(t, houses[0].grant(t, "mara", tooLong))
		}
		wantPair(t, houses[1].grant(t, "mara", storetest.Password))
		for range 9 {
			wantJudged(t, houses[0].grant(t, "mara", tooLong))
		}
	})
	t.Run("bursts_at_both", func(t *testing.T) {
		t.Parallel()
		houses := pairOf(t, table(t))
		for i := range 10 {
			wantJudged(t, houses[i%2].grant(t, "mara", tooLong))
		}
		houses[0].Clock.Advance(time.Second)
		judged := 0
		for _, h := range houses {
			for _, a := range h.together(t, 30, func() answer { return h.grant(t, "mara", tooLong) }) {
				if isJudged(a) {
					judged++
				}
			}
		}
		if judged != 1 {
			t.Errorf("%d were judged after the delay, want one", judged)
		}
	})
}

func TestThrottleTable(t *testing.T) {
	t.Parallel()
	t.Run("a_refusal_is_repeated_without_asking", func(t *testing.T) {
		t.Parallel()
		houses, table := fakePair(t)
		h := houses[0]
		for range 10 {
			wantJudged(t, h.grant(t, "mara", tooLong))
		}
		s := h.stranger(t)
		for i := range 30 {
			wantJudged(t, s.signIn(t, fmt.Sprint("name", i), tooLong))
		}
		asked := table.Asked()
		for range 10 {
			wantThrottled(t, h.grant(t, "mara", tooLong), "1")
			wantThrottled(t, s.signIn(t, "moira", tooLong), "2")
			wantThrottled(t, h.token(t, url.Values{"client_id": {"x"}}), "2")
		}
		if more := table.Asked() - asked; more != 0 {
			t.Errorf("the table was asked %d times, want never", more)
		}
		h.Clock.Advance(2 * time.Second)
		wantJudged(t, h.grant(t, "mara", tooLong))
		wantJudged(t, s.signIn(t, "moira", tooLong))
	})
	t.Run("no_password_is_judged_without_it", func(t *testing.T) {
		t.Parallel()
		houses, table := fakePair(t)
		h := houses[0]
		s := h.stranger(t)
		table.Break(0, errors.New("connection refused"))
		for _, password := range []string{storetest.Password, tooLong} {
			for name, a := range map[string]answer{
				"form": s.signIn(t, "mara", password), "grant": h.grant(t, "mara", password),
				"secret": h.token(t, with(h.passwordForm(), "client_secret", "wrong")),
			} {
				if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
					t.Errorf("%s: status = %d, Retry-After %q, want 503 with one", name, a.StatusCode, a.Header.Get("Retry-After"))
				}
			}
		}
		table.Break(1, errors.New("connection reset")) // after the attempt began
		if a := h.grant(t, "mara", tooLong); a.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("status = %d for a failure that is not counted, want 503", a.StatusCode)
		}
		table.Break(0, nil)
		wantPair(t, h.grant(t, "mara", storetest.Password))
	})
	t.Run("an_attempt_of_a_process_that_ended_counts_for_30_seconds", func(t *testing.T) {
		t.Parallel()
		houses, _ := fakePair(t)
		for range 9 {
			wantJudged(t, houses[0].grant(t, "mara", tooLong))
		}
		handlers.LeaveAttempt(t, houses[0].server, "mara", houses[0].client.ID)
		wantThrottled(t, houses[1].grant(t, "mara", tooLong), "1")
		houses[1].Clock.Advance(29 * time.Second)
		wantThrottled(t, houses[1].grant(t, "mara", tooLong), "1")
		houses[1].Clock.Advance(time.Second)
		wantJudged(t, houses[1].grant(t, "mara", tooLong))
	})
	t.Run("right_passwords_leave_no_rows", func(t *testing.T) {
		t.Parallel()
		houses, table := fakePair(t)
		h := houses[0]
		h.remembered(t, 2)
		wantPair(t, h.grant(t, "mara", storetest.Password))
		if rows := table.Len(); rows != 0 {
			t.Errorf("the table has %d rows, want none", rows)
		}
	})
}
