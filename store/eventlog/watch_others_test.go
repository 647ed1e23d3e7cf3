package eventlog

import "testing"

func TestPolledCountsNotesAsMissedAfterTwoLooks(t *testing.T) {
	t.Parallel()
	begin := func() *polled { return &polled{begun: true, accounted: 5, shown: 5, raised: map[uint64]struct{}{}} }
	look := func(p *polled, generation uint64) bool {
		_, missed := p.saw(Version{Generation: generation}, true)
		return missed
	}
	for name, c := range map[string]struct {
		run  func(p *polled) bool
		want bool
	}{
		"no_change":                     {func(p *polled) bool { return look(p, 5) || look(p, 5) }, false},
		"heard_before":                  {func(p *polled) bool { p.heard(6); return look(p, 6) || look(p, 6) }, false},
		"heard_between":                 {func(p *polled) bool { defer p.heard(6); return look(p, 6) }, false},
		"heard_late_and_seen_by_a_look": {func(p *polled) bool { early := look(p, 6); p.heard(6); return early || look(p, 6) }, false},
		"never_heard":                   {func(p *polled) bool { return !look(p, 6) && look(p, 6) }, true},
		"one_of_three_never_heard": {func(p *polled) bool {
			p.heard(6)
			p.heard(8)
			return !look(p, 8) && look(p, 8)
		}, true},
		"a_look_between": {func(p *polled) bool {
			early := look(p, 6)
			_, missed := p.saw(Version{Generation: 6}, false)
			p.heard(6)
			return early || missed || look(p, 6)
		}, false},
		"reported_once": {func(p *polled) bool {
			_, _ = look(p, 6), look(p, 6)
			return look(p, 6) || look(p, 6)
		}, false},
		"too_many_between_two_looks": {func(p *polled) bool {
			for g := range uint64(raisedMax + 10) {
				p.heard(6 + g)
			}
			return !look(p, 5+raisedMax+10) && look(p, 5+raisedMax+10)
		}, true},
		"account_deleted_and_created_again": {func(p *polled) bool { return look(p, 1) || look(p, 1) }, false},
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
