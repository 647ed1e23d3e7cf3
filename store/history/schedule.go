package history

import (
	"fmt"
	"time"
)

// schedule is a recurring payment: created, then updated with each payment that
// it makes, until it is completed; sometimes it pauses, and when a payment is
// refused it tries once more.
type schedule struct {
	resource
	account *account
	cents   int64
	weekly  bool
	left    int // payments
	stage   stage
	retried bool
}

const (
	scheduleRuns stage = iota
	scheduleCharges
	schedulePauses
	scheduleResumes
	scheduleRefused
	scheduleRetries
	scheduleCompleted
)

// runHour is when the schedules of a day make their payments.
const runHour = 12

func (g *Generator) beginSchedule() bool {
	a := g.anyAccount(func(a *account) bool { return a.mayPay(g) })
	if a == nil {
		return false
	}
	s := &schedule{
		resource: resource{kind: "recurring", id: g.chance.id("rec_")}, account: a,
		cents: g.price(), weekly: g.chance.outOf1000(400), left: int(g.chance.between(3, 12)),
	}
	a.open++
	a.customer.open++
	interval := "monthly"
	if s.weekly {
		interval = "weekly"
	}
	g.tell(schedules, &s.resource, "created", g.author(), members("customer", a.customer.id, "account", a.id, "status", "active", "interval", interval,
		"amount", dollars(s.cents), "currency", "USD", "remaining", fmt.Sprint(s.left), "nextDate", g.dateAt(s.nextRun(g.now)), "description", pick(g.chance, goods))...)
	s.wait(g)
	return true
}

func (g *Generator) dateAt(t int64) string { return dateOf(t).Format(time.DateOnly) }

// nextRun returns when the schedule pays next: a week later, or on the first of
// the next month, when all the monthly ones do.
func (s *schedule) nextRun(t int64) int64 {
	if s.weekly {
		return dayOf(t) + 7*day + runHour*hour
	}
	date := dateOf(t)
	return time.Date(date.Year(), date.Month()+1, 1, runHour, 0, 0, 0, time.UTC).UnixMilli()
}

func (s *schedule) goOn(g *Generator, to stage, wait int64) {
	s.stage = to
	g.after(wait, schedules, s)
}

// wait waits for the next payment.
func (s *schedule) wait(g *Generator) {
	s.stage = scheduleRuns
	g.at(s.nextRun(g.now)+g.chance.below(settlementSeconds)*second, schedules, s)
}

func (s *schedule) tells(g *Generator, action, source string, patch ...string) {
	g.tell(schedules, &s.resource, action, source, members(patch...)...)
}

func (s *schedule) ends() {
	s.account.open--
	s.account.customer.open--
}

func (s *schedule) step(g *Generator) {
	switch s.stage {
	case scheduleRuns:
		s.run(g)
	case scheduleCharges:
		g.beginPayment(s.account, order{cents: s.cents, description: "Recurring payment", fields: members("reference", s.id), payee: s})
	case schedulePauses:
		s.tells(g, "paused", g.author(), "status", "paused")
		s.goOn(g, scheduleResumes, g.chance.between(5, 40)*day)
	case scheduleResumes:
		s.tells(g, "resumed", g.author(), "status", "active", "nextDate", g.dateAt(s.nextRun(g.now)))
		s.wait(g)
	case scheduleRefused:
		s.tells(g, "payment_failed", bySystem, "status", "payment_failed")
		s.goOn(g, scheduleRetries, 0)
	case scheduleRetries:
		s.retry(g)
	case scheduleCompleted:
		s.tells(g, "completed", bySystem, "status", "completed")
		s.ends()
	}
}

// run makes the payment of this date; without an account to take it from the
// schedule has no purpose any more.
func (s *schedule) run(g *Generator) {
	if !s.account.mayPay(g) {
		s.giveUp(g)
		return
	}
	s.left--
	s.retried = false
	s.tells(g, "updated", bySystem, "remaining", fmt.Sprint(s.left), "lastDate", g.date(), "nextDate", g.dateAt(s.nextRun(g.now)))
	s.stage = scheduleCharges
	g.at(g.now, s.account.flow(), s)
}

// flow returns the flow of payments from the account.
func (a *account) flow() flow {
	if a.card {
		return cardPayments
	}
	return achPayments
}

func (s *schedule) paid(g *Generator, _ int64) {
	switch {
	case s.left <= 0:
		s.goOn(g, scheduleCompleted, 0)
	case g.chance.outOf1000(20):
		s.goOn(g, schedulePauses, g.chance.between(hour, 2*day))
	default:
		s.wait(g)
	}
}

func (s *schedule) refused(g *Generator) { s.goOn(g, scheduleRefused, 0) }

// retry plans another attempt two days later, or gives the schedule up when that
// has failed too.
func (s *schedule) retry(g *Generator) {
	if s.retried || !s.account.mayPay(g) {
		s.giveUp(g)
		return
	}
	s.retried = true
	s.tells(g, "retry_scheduled", bySystem, "status", "active", "nextDate", g.dateAt(g.now+2*day))
	s.stage = scheduleCharges
	g.after(2*day, s.account.flow(), s)
}

func (s *schedule) giveUp(g *Generator) {
	g.tell(schedules, &s.resource, "deleted", bySystem)
	s.ends()
}
