package alarms

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// states are the states of what arrived, in order.
func states(all []arrival) string {
	var words []string
	for _, a := range all {
		words = append(words, a.State)
	}
	return strings.Join(words, " ")
}

func (b *bench) want(when, want string) []arrival {
	b.t.Helper()
	all := b.got()
	if got := states(all); got != want {
		b.t.Errorf("%s: told %q, want %q", when, got, want)
	}
	return all
}

// Promise (Guard §7, §8, §9): one message when something begins, one when it ends, one each --alarm-repeat
// while it lasts; what gets worse is told at once; success is never told
func TestAFindingIsToldWhenItBeginsAndWhenItEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.begin(nil, one)
		b.sees()
		b.want("nothing is wrong", "")
		b.sees(backup())
		begun := b.want("it begins", "begun")[0]
		for range 100 {
			rest(30 * time.Second)
			b.sees(backup())
		}
		b.want("it lasts", "")
		for range 48 {
			rest(time.Hour)
			b.sees(backup())
		}
		b.want("it lasts for two days", "continues continues")
		b.sees()
		ended := b.want("it ends", "ended")[0]
		if ended.BegunAt != begun.BegunAt || ended.EndedAt == nil || *ended.EndedAt != time.Now().Unix() || ended.ID == begun.ID {
			t.Errorf("told %+v at the end of %+v", ended, begun)
		}
		rest(2 * time.Hour)
		b.sees()
		b.want("it is over", "")

		low, full := backup(), backup()
		low.Alarm, full.Alarm, full.Severity, full.Title = "disk", "disk", Problem, "Disk full"
		b.sees(low)
		b.sees(full)
		all := b.want("it gets worse", "begun continues")
		if worse := all[1]; worse.Severity != Problem || worse.Title != "Disk full" {
			t.Errorf("told %+v, want the problem", worse)
		}
		b.sees(low)
		b.want("it gets better", "")
		b.sees(low, full)
		b.want("it gets worse again, which was told", "")
		b.sees()
		b.want("it ends", "ended")
	})
}

func TestWithoutARepeatWhatLastsIsToldOnce(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.begin(func(o *Options) { o.Repeat = 0 }, one)
		for range 10 {
			b.sees(backup())
			rest(24 * time.Hour)
		}
		b.want("ten days", "begun")
	})
}

// Promise (Guard §7, §8, §9): what begins and ends in turns is told six times an hour at most, and then its
// state if that is not what was told last
func TestFlappingIsToldSixTimesAnHour(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.begin(nil, one)
		for range 30 {
			b.sees(backup())
			rest(10 * time.Second)
			b.sees()
			rest(10 * time.Second)
		}
		b.sees(backup())
		b.want("ten minutes of turns", "begun ended begun ended begun ended")
		other := endpoint("wep_1")
		b.sees(backup(), other)
		b.want("another finding", "begun")
		for range 110 {
			rest(30 * time.Second)
			b.sees(backup(), other)
		}
		all := b.want("the hour is over, and it lasts", "begun")
		if all[0].Alarm != "backup" || all[0].at < time.Hour {
			t.Errorf("told %+v after %s", all[0].Message, all[0].at)
		}
		rest(time.Hour)
		b.sees(other)
		b.want("it ends", "ended")
	})
	t.Run("what_was_told_last_is_not_told_again", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.begin(nil, one)
			for range 9 {
				b.sees(backup())
				b.sees()
			}
			b.want("turns", "begun ended begun ended begun ended")
			for range 300 {
				rest(30 * time.Second)
				b.sees()
			}
			b.want("the next hours", "")
			if len(b.lasting) != 0 {
				t.Errorf("it is still remembered: %v", b.lasting)
			}
		})
	})
}

// Promise (Guard §7, §8, §9): what is muted is not sent, and is listed
func TestWhatIsMutedIsListedOnly(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.begin(func(o *Options) { o.Muted = []string{"backup"} }, one)
		b.sees(backup(), endpoint("wep_1"))
		b.Happen(Finding{Alarm: "backup", Severity: Warning}, time.Now(), "")
		synctest.Wait()
		if all := b.want("one of two is muted", "begun"); all[0].Alarm != "webhooks" {
			t.Errorf("told %+v", all[0])
		}
		list := b.List()
		if len(list) != 2 || list[0].Alarm != "backup" || list[0].ToldAt != nil || list[0].Waiting != 0 || list[1].ToldAt == nil || *list[1].Subject != "wep_1" {
			t.Errorf("listed %+v", list)
		}
		b.begin(nil, one)
		b.sees(backup(), endpoint("wep_1"))
		if all := b.want("it is muted no more", "begun"); all[0].Alarm != "backup" {
			t.Errorf("told %+v", all[0])
		}
	})
}

// What cannot be said now is as it was.
func TestWhatIsUnknownDoesNotEnd(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.begin(nil, one)
		b.sees(backup())
		b.Look(nil, func(alarm string) bool { return alarm != "backup" })
		b.begin(nil, one) // a restart
		b.Look(nil, func(alarm string) bool { return alarm != "backup" })
		synctest.Wait()
		b.want("it is unknown", "begun")
		b.sees()
		b.want("it is known again", "ended")
	})
}

// Promise (Guard §7, §8, §9): of a URL that fails for 15 minutes the others are told, and of its return
func TestTheOthersAreToldOfAURLThatFails(t *testing.T) {
	inBubble(t, func(b *bench) {
		dead := true
		b.receives(func(to string, m Message) Result {
			if to == two && dead {
				return refuses(to, m)
			}
			return Result{Delivered: true}
		})
		look := func() {
			failing, of, known := b.Failing()
			if of != 2 {
				t.Errorf("%d targets", of)
			}
			found := []Finding{backup()}
			if failing > 0 {
				found = append(found, Finding{Alarm: Undelivered, Severity: Warning, Title: "Alarms not delivered"})
			}
			b.Look(found, func(alarm string) bool { return alarm != Undelivered || known })
			synctest.Wait()
		}
		b.begin(nil, one, two)
		for range 28 { // 14 minutes
			look()
			rest(30 * time.Second)
		}
		b.want("for 14 minutes", "begun")
		for range 4 {
			look()
			rest(30 * time.Second)
		}
		if all := b.want("for 16 minutes", "begun"); all[0].Alarm != Undelivered || all[0].to != one {
			t.Errorf("told %+v", all[0])
		}
		dead = false
		for range 60 {
			look()
			rest(30 * time.Second)
		}
		all := b.want("it works again", "begun ended")
		if all[0].Alarm != "backup" || all[0].to != two || all[1].Alarm != Undelivered || all[1].to != one {
			t.Errorf("told %+v", all)
		}
	})
}
