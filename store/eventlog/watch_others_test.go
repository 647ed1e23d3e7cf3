package eventlog

import "testing"

func TestPolledCountsNotesAsMissedAfterTwoLooks(t *testing.T) {
	t.Parallel()
	begin := func() *polled { return &polled{begun: true, accounted: 5, shown: 5, raised: map[uint64]struct{}{}} }
	look := func(p *polled, generation uint64) bool {
		_, missed := p.saw(Version{Generation: generation}, true)
		return missed
	}
	later := func(p *polled, generation uint64) bool { // at the second look
		first := look(p, generation)
		return !first && look(p, generation)
	}
	either := func(p *polled, generation uint64) bool {
		first := look(p, generation)
		return first || look(p, generation)
	}
	for name, c := range map[string]struct {
		run  func(p *polled) bool
		want bool
	}{
		"no_change":     {func(p *polled) bool { return either(p, 5) }, false},
		"heard_before":  {func(p *polled) bool { p.heard(6); return either(p, 6) }, false},
		"heard_between": {func(p *polled) bool { first := look(p, 6); p.heard(6); return first || look(p, 6) }, false},
		"never_heard":   {func(p *polled) bool { return later(p, 6) }, true},
		"one_of_three_never_heard": {func(p *polled) bool {
			p.heard(6)
			p.heard(8)
			return later(p, 8)
		}, true},
		"a_look_between": {func(p *polled) bool {
			early := look(p, 6)
			_, missed := p.saw(Version{Generation: 6}, false)
			p.heard(6)
			return early || missed || look(p, 6)
		}, false},
		"reported_once": {func(p *polled) bool {
			_ = later(p, 6)
			return either(p, 6)
		}, false},
		"too_many_between_two_looks": {func(p *polled) bool {
			for g := range uint64(raisedMax + 10) {
				p.heard(6 + g)
			}
			return later(p, 5+raisedMax+10)
		}, true},
		"account_deleted_and_created_again": {func(p *polled) bool { return either(p, 1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := begin()
			if got := c.run(p); got != c.want {
				t.Errorf("missed = %t, want %t", got, c.want)
			}
			if len(p.raised) > raisedMax {
				t.Errorf("%d generations are kept", len(p.raised))
			}
		})
	}
}
