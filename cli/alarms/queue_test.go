package alarms

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tollhouse/store/storetest/must"
)

func happening(subject string) Finding {
	return Finding{Alarm: "privileges", Subject: subject, Severity: Warning, Title: "New privileges", Text: "More rights.", Next: "look"}
}

// Promise (Guard §7, §8, §9): a URL gets ten messages a minute at most; what waits of one name is one
// message, and the counts add up
func TestAStormIsTenMessagesAMinute(t *testing.T) {
	for name, subject := range map[string]func(i int) string{
		"of_many": func(i int) string { return fmt.Sprintf("usr_%d", i) },
		"of_one":  func(int) string { return "usr_1" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.begin(nil, one, two)
				for i := range 200 {
					b.Happen(happening(subject(i)), time.Now(), "")
					rest(300 * time.Millisecond)
				}
				rest(2 * time.Minute)
				for _, to := range []string{one, two} {
					count := 0
					var at []time.Duration
					for _, a := range b.tried {
						if a.to != to {
							continue
						}
						count += a.Count
						at = append(at, a.at)
						if (a.Subject == nil) != (a.Count > 1 && name == "of_many") || a.State != Happened || a.EndedAt != nil {
							t.Errorf("told %+v", a.Message)
						}
					}
					if count != 200 {
						t.Errorf("%s was told of %d, want 200", to, count)
					}
					for i := range at {
						if i >= 10 && at[i]-at[i-10] < time.Minute {
							t.Errorf("%s got 11 messages within %s", to, at[i]-at[i-10])
						}
					}
					if len(at) < 11 || len(at) > 20 {
						t.Errorf("%s got %d messages", to, len(at))
					}
				}
			})
		})
	}
	t.Run("of_endpoints", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.begin(nil, one)
			var all []Finding
			for i := range 300 {
				all = append(all, endpoint(fmt.Sprintf("wep_%d", i)))
			}
			b.sees(all...)
			b.sees()
			told := b.want("300 endpoints begin and end", "begun ended")
			for _, a := range told {
				if a.Count != 300 || a.Subject != nil {
					t.Errorf("told %+v", a.Message)
				}
			}
		})
	})
}

// Promise (Guard §7, §8, §9): a message that is not accepted is repeated after 5 s, 15 s, 1 and 5 min, then
// each 15 min for three days, with the same id, and no URL waits for another
func TestAMessageIsRepeated(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receives(func(to string, m Message) Result {
			if to == one {
				return refuses(to, m)
			}
			return Result{Delivered: true}
		})
		b.begin(nil, one, two)
		b.sees(backup())
		b.want("one of two refuses", "begun")
		rest(time.Minute)
		b.Happen(happening("usr_1"), time.Now(), "")
		synctest.Wait()
		b.want("one of two still refuses", "happened")
		rest(80 * time.Hour)
		var times []time.Duration
		id := ""
		for _, a := range b.tried {
			if a.to == one && a.Alarm == "backup" {
				times = append(times, a.at)
				if id == "" {
					id = a.ID
				}
				if a.ID != id || a.SentAt != b.start.Add(a.at).Unix() {
					t.Errorf("repeated as %+v", a.Message)
				}
			}
		}
		for i := 1; i < len(times); i++ {
			pause := []time.Duration{5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute}[min(i-1, 4)]
			if got := times[i] - times[i-1]; got < pause*8/10 || got > pause*12/10 {
				t.Errorf("pause %d is %s, want about %s", i, got, pause)
			}
		}
		if last := times[len(times)-1]; last < 72*time.Hour-20*time.Minute || last > 72*time.Hour+20*time.Minute {
			t.Errorf("the last attempt is after %s", last)
		}
		if b.observed[Dropped] != 2 || b.observed[Delivered] != 2 || b.observed[Failed] < 200 || b.Waiting() != 0 {
			t.Errorf("counted %v, %d wait", b.observed, b.Waiting())
		}
		b.receives(nil)
		b.sees()
		rest(20 * time.Minute) // the pause of the URL
		b.want("it ends", "ended ended")
	})
	t.Run("later_if_the_receiver_asks", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.receives(func(string, Message) Result { return Result{retryAfter: 50 * time.Minute} })
			b.begin(nil, one)
			b.sees(backup())
			rest(49 * time.Minute)
			b.receives(nil)
			b.want("it asked for 50 minutes", "")
			rest(2 * time.Minute)
			b.want("they are over", "begun")
		})
	})
}

// Promise (Guard §7, §8, §9): of a finding the newest state replaces one that waits; what has ended before it
// was told is told once, as ended, with both times
func TestTheNewestStateReplacesOneThatWaits(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receives(refuses)
		b.begin(nil, one)
		begun := time.Now().Unix()
		b.sees(backup())
		rest(time.Minute)
		b.sees()
		rest(10 * time.Second)
		for range 50 { // which is not told more often than it may be
			b.sees(endpoint("wep_1"))
			b.sees()
		}
		b.sees(endpoint("wep_1"))
		if n := b.Waiting(); n != 2 {
			t.Errorf("%d messages wait, want 2", n)
		}
		b.receives(nil)
		rest(20 * time.Minute)
		told := b.want("the receiver is back", "ended begun")
		if a := told[0]; a.BegunAt != begun || a.EndedAt == nil || *a.EndedAt != begun+60 || a.ID == b.tried[0].ID {
			t.Errorf("told %+v", a.Message)
		}
		if told[1].Alarm != "webhooks" {
			t.Errorf("told %+v", told[1].Message)
		}
		rest(time.Hour)
		b.sees()
		b.want("the second ends", "ended")
	})
	t.Run("what_the_receiver_knows_begins_again", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.begin(nil, one)
			b.sees(backup())
			b.want("it begins", "begun")
			b.receives(refuses)
			b.sees()
			rest(time.Minute)
			again := time.Now().Unix()
			b.sees(backup())
			b.receives(nil)
			rest(20 * time.Minute)
			if told := b.want("it has ended and begun", "begun"); told[0].BegunAt != again || told[0].EndedAt != nil {
				t.Errorf("told %+v", told[0].Message)
			}
		})
	})
}

// Promise (Guard §7, §8, §9): the queue survives a kill: what was not delivered goes out at the next start,
// at once and with the same id
func TestTheQueueSurvivesAKill(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receives(func(to string, m Message) Result {
			var kept []entry
			b.store.mu.Lock()
			defer b.store.mu.Unlock()
			if err := json.Unmarshal(b.store.records[queuePrefix+to], &kept); err != nil || len(kept) == 0 || kept[0].ID != m.ID || !kept[0].Tried {
				t.Errorf("the store has %+v, %v, while %s is sent", kept, err, m.ID)
			}
			return refuses(to, m)
		})
		b.begin(nil, one, two)
		b.sees(backup(), endpoint("wep_1"))
		b.Happen(happening("usr_1"), time.Now(), "")
		b.Happen(happening("usr_2"), time.Now(), "")
		rest(10 * time.Minute)
		ids := map[string]string{}
		for _, a := range b.tried {
			ids[a.to] = a.ID
		}
		b.receives(nil)
		b.begin(nil, one, two)
		told := b.got()
		if len(told) != 6 {
			t.Fatalf("told %q at the start, want all", states(told))
		}
		for _, a := range told {
			if ids[a.to] == a.ID {
				delete(ids, a.to)
			}
			if a.State == Happened && (a.Count != 2 || a.Subject != nil) {
				t.Errorf("told %+v", a.Message)
			}
		}
		if len(ids) != 0 {
			t.Errorf("%v were tried, and not repeated: %+v", ids, told)
		}
		b.sees(backup(), endpoint("wep_1"))
		b.want("it lasts", "")
		b.begin(nil, one, two)
		b.sees()
		b.want("it ended while no server ran", "ended ended ended ended")
		b.begin(nil, one, two)
		b.sees()
		b.want("all is told", "")
		for name, text := range b.store.records {
			if strings.HasPrefix(name, queuePrefix) {
				t.Errorf("%s is still kept: %s", name, text)
			}
		}
	})
	// The process dies between any two writes, and the message goes out at least once.
	t.Run("at_any_moment", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.begin(nil, one)
			for kill := range 12 {
				rest(24 * time.Hour)
				stopped := false
				b.receives(func(string, Message) Result {
					if stopped = !stopped; stopped && kill%2 == 0 { // before the answer is read
						return Result{Reason: "the receiver closed the connection"}
					}
					return Result{Delivered: true}
				})
				b.Look([]Finding{endpoint(fmt.Sprint("wep_", kill))}, func(string) bool { return true })
				if kill%3 != 0 {
					synctest.Wait()
				}
				b.begin(nil, one) // all goroutines of before are gone
				b.sees(endpoint(fmt.Sprint("wep_", kill)))
				rest(time.Minute)
				b.sees()
				rest(time.Minute)
				told := states(b.got())
				if !strings.HasPrefix(told, "begun") || !strings.Contains(told, "ended") {
					t.Errorf("killed %d: told %q", kill, told)
				}
			}
		})
	})
	t.Run("while_the_store_refuses_writes", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.begin(nil, one)
			b.store.refuses = true
			full := backup()
			full.Alarm, full.Severity = "disk", Problem
			b.sees(full)
			b.want("the disk is full", "begun")
			b.sees()
			b.want("it is not", "ended")
			b.store.refuses = false
			b.sees(backup())
			if len(b.store.records) == 0 {
				t.Error("nothing is written once the store accepts it")
			}
		})
	})
	t.Run("without_the_url", func(t *testing.T) {
		inBubble(t, func(b *bench) {
			b.receives(refuses)
			b.begin(nil, one)
			b.sees(backup())
			b.begin(nil, two)
			rest(time.Minute)
			if b.observed[Dropped] != 1 || b.store.records[queuePrefix+one] != nil {
				t.Errorf("counted %v, kept %v", b.observed, b.store.records)
			}
		})
	})
}

// Promise (Guard §7, §8, §9): a hundred messages wait for a URL at most
func TestAQueueIsBounded(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receives(refuses)
		b.begin(nil, one)
		b.sees(backup())
		for i := range 5000 {
			f := happening(strings.Repeat("x", i%200))
			f.Alarm = fmt.Sprint("alarm", i)
			b.Happen(f, time.Now(), "")
		}
		synctest.Wait()
		if n := b.Waiting(); n != queueMax {
			t.Errorf("%d wait, want %d", n, queueMax)
		}
		if size := len(b.store.records[queuePrefix+one]); size > 60<<10 {
			t.Errorf("a full queue takes %d bytes, more than a record may have", size)
		}
		must.Figure(t, "alarm_queue_bytes", len(b.store.records[queuePrefix+one]))
	})
}

// At rest a sender neither wakes nor writes.
//
// Promise (Guard §7, §8, §9): without a finding alarms cost no write, and their memory is bounded
func TestALookAtRestWritesNothing(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.begin(nil, one)
		b.sees(backup())
		writes := b.store.writes
		for i := range 100 {
			rest(30 * time.Second)
			f := backup()
			f.Text = fmt.Sprintf("It failed %d times.", i)
			b.sees(f)
		}
		if n := b.store.writes - writes; n > 0 {
			t.Errorf("%d writes while nothing changed", n)
		}
	})
}

// Promise (Guard §7, §8, §9): a test goes to each URL now, also of what is muted
func TestATestGoesToEachURL(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receives(func(to string, m Message) Result {
			if to == two {
				return refuses(to, m)
			}
			return Result{Delivered: true, Status: 200, Took: time.Millisecond}
		})
		b.begin(func(o *Options) { o.Muted = []string{Tested, "backup"} }, one, two)
		all := b.Test(t.Context())
		if len(all) != 2 || !all[0].Delivered || *all[0].Status != 200 || all[0].Error != nil || all[0].MS != 1 || all[0].Alarm != "ntfy://a.example/…" ||
			all[1].Delivered || *all[1].Error != "status 500" {
			t.Errorf("tried %+v", all)
		}
		if told := b.want("a test", "test"); told[0].Alarm != "test" || told[0].Title != "Test" || b.Waiting() != 0 {
			t.Errorf("told %+v", told[0].Message)
		}
	})
}
