package webhooks

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// pauseOf returns a random pause of 80 to 120 % of d.
func pauseOf(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// pauses are the tasks that wait, the first due first.
type pauses []*task

func (p pauses) Len() int { return len(p) }

func (p pauses) Less(i, j int) bool { return p[i].due.Before(p[j].due) }

func (p pauses) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].index, p[j].index = i, j
}

func (p *pauses) Push(t any) {
	t.(*task).index = len(*p)
	*p = append(*p, t.(*task))
}

func (p *pauses) Pop() any {
	last := (*p)[len(*p)-1]
	*p, last.index = (*p)[:len(*p)-1], -1
	return last
}

// drop removes a task that waits.
func (p *pauses) drop(t *task) {
	if t.index >= 0 {
		heap.Remove(p, t.index)
	}
}
