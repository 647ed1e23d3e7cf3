package history

import "container/heap"

// life is something that goes on: a payment, an invoice, a schedule. Its step
// tells of one event, or of none when it has become pointless, and says when the
// next step is due.
type life interface{ step(g *Generator) }

// pending is the next step of a life.
type pending struct {
	due   int64 // milliseconds
	order uint64
	flow  flow // that the step's event will belong to
	life  life
}

// queue holds pending steps, the earliest first. Steps that are due together
// come in the order in which they were put there.
type queue struct {
	steps steps
	order uint64
}

func (q *queue) len() int { return len(q.steps) }

// first returns the earliest step; there must be one.
func (q *queue) first() pending { return q.steps[0] }

func (q *queue) put(p pending) {
	q.order++
	p.order = q.order
	heap.Push(&q.steps, p)
}

func (q *queue) take() pending { return heap.Pop(&q.steps).(pending) }

type steps []pending

func (s steps) Len() int { return len(s) }

func (s steps) Less(i, j int) bool {
	if s[i].due != s[j].due {
		return s[i].due < s[j].due
	}
	return s[i].order < s[j].order
}

func (s steps) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

func (s *steps) Push(p any) { *s = append(*s, p.(pending)) }

func (s *steps) Pop() any {
	last := len(*s) - 1
	p := (*s)[last]
	(*s)[last] = pending{}
	*s = (*s)[:last]
	return p
}
