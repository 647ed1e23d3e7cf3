package handlers_test

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"tollhouse/store/storetest"
	"tollhouse/store/storetest/must"
)

const (
	clockedPairs     = 20 // of requests to compare
	clockedPairsLong = 2000
	clockedRounds    = 1
	clockedPercent   = 5 // a comparison that differs by more is made twice more
)

// TestTimesOverAConnection times the requests of [TestEnumeration], but for those about
// tokens, over a connection: for something unknown and for something foreign, alternately, over
// a store on disk. A round
// is one comparison. By the figures the medians differ by less than 5 % and Welch's t is
// below 4.5; the short form only checks that there are figures.
func TestTimesOverAConnection(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pairs := clockedPairs
	if must.Long() {
		pairs = clockedPairsLong
	}
	var todo [][2]int // a kind of request and one of its ways
	var worstPercent, worstT, worstAgain float64
	all, round := 0, 0
	for ; round == 0 || must.More(round, clockedRounds, all); round++ {
		t.Run("round", func(t *testing.T) {
			n := populate(t, houseOnDisk(t)) // with a clock and revocations of its own
			likes := n.timed()
			if round == 0 {
				todo = comparisons(likes)
				all = len(todo)
				random.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
			}
			like, known := likes[todo[0][0]], likes[todo[0][0]].asks[todo[0][1]]
			todo = todo[1:]
			percent, welch := n.clocked(t, like, known, pairs)
			t.Logf("%s, %s: the medians differ by %.2f %%, t %.2f", like.name, known.about, percent, welch)
			worstPercent, worstT = max(worstPercent, percent), max(worstT, welch)
			if percent > clockedPercent && must.Long() {
				second, secondT := n.clocked(t, like, known, pairs)
				third, thirdT := n.clocked(t, like, known, pairs)
				t.Logf("again: %.2f %%, t %.2f, and %.2f %%, t %.2f", second, secondT, third, thirdT)
				worstAgain = max(worstAgain, slices.Sorted(slices.Values([]float64{percent, second, third}))[1])
				worstT = max(worstT, secondT, thirdT)
			}
		})
	}
	must.Figure(t, "comparisons", round)
	must.Figure(t, "not_compared", all-round)
	must.Figure(t, "samples_of_each", pairs)
	must.Figure(t, "median_difference_percent", worstPercent)
	must.Figure(t, "again_percent", worstAgain)
	must.Figure(t, "welch_t", worstT)
}

// comparisons lists every way to ask about something that exists, by its indexes. The
// short form leaves out those that hash a password.
func comparisons(likes []lookalike) (list [][2]int) {
	for i, like := range likes {
		if like.hashes && !must.Long() {
			continue
		}
		for j := range like.asks[1:] {
			list = append(list, [2]int{i, j + 1})
		}
	}
	return list
}

// clocked compares the times of two requests over a connection.
func (n *neighbourhood) clocked(t *testing.T, like lookalike, known ask, pairs int) (percent, welch float64) {
	t.Helper()
	c := &timedConn{address: n.listen(t)}
	defer c.close()
	timed := func(a ask) storetest.Work {
		return func() time.Duration {
			took, status := c.send(t, a.send(t))
			if status != like.status {
				t.Fatalf("about %s: status = %d, want %d", a.about, status, like.status)
			}
			return took
		}
	}
	var taken storetest.Pairs
	for len(taken.A) < pairs {
		if like.guesses {
			n.Clock.Advance(throttleForgets)
		}
		taken.Take(timed(known), timed(like.asks[0]))
	}
	return taken.Differ()
}

// timedConn sends one request after another over a connection.
type timedConn struct {
	address string
	conn    net.Conn
	answers *bufio.Reader
}

// send returns the time from the first byte sent to the last byte of the answer.
func (c *timedConn) send(t *testing.T, r *http.Request) (took time.Duration, status int) {
	t.Helper()
	var request bytes.Buffer
	must.Do(t, dialled(r, c.address).Write(&request))
	if c.conn == nil {
		c.conn = must.Get((&net.Dialer{}).DialContext(t.Context(), "tcp", c.address))(t)
		c.answers = bufio.NewReader(c.conn)
	}
	began := time.Now()
	must.Get(c.conn.Write(request.Bytes()))(t)
	res := must.Get(http.ReadResponse(c.answers, r))(t)
	must.Get(io.Copy(io.Discard, res.Body))(t)
	took = time.Since(began)
	if res.Close {
		c.close()
	}
	return took, res.StatusCode
}

func (c *timedConn) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}
