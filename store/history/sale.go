package history

import (
	"strings"

	"tollhouse/store/snapshot"
)

// sale is a payment by card: created, authorized, captured, settled; or declined,
// or voided; and then perhaps refunded or disputed.
type sale struct {
	payment
	captured int64 // when
	refunded int64 // cents, at most what was captured
}

const (
	saleAuthorized stage = iota
	saleCaptured
	saleSettled
	saleRefunded
	saleDisputed
	saleJudged
)

const (
	saleGoesWell fate = iota
	saleIsDeclined
	saleIsVoided
	saleIsRefunded
	saleIsDisputed
)

// saleFates adds up to 1000: of a thousand sales so many are declined, and so on.
var saleFates = []weighted[fate]{{889, saleGoesWell}, {80, saleIsDeclined}, {10, saleIsVoided}, {20, saleIsRefunded}, {1, saleIsDisputed}}

var declines = []weighted[[2]string]{
	{55, [2]string{"51", "insufficient funds"}}, {25, [2]string{"05", "do not honor"}}, {10, [2]string{"61", "exceeds amount limit"}},
	{6, [2]string{"14", "invalid number"}}, {4, [2]string{"91", "issuer unavailable"}},
}

// beginSale sells something over the counter.
func (g *Generator) beginSale() bool {
	a := g.anyAccount(func(a *account) bool { return a.card && a.mayPay(g) })
	if a == nil {
		return false
	}
	g.beginPayment(a, order{cents: g.price(), description: pick(g.chance, goods)})
	return true
}

func (s *sale) begin(g *Generator, o order) {
	s.flow, s.fate = cardPayments, pickWeighted(g.chance, saleFates)
	source := byTill
	if o.payee != nil {
		source = bySystem
	}
	s.created(g, source, o)
	g.after(g.chance.below(second), s.flow, s)
}

func (s *sale) step(g *Generator) {
	switch s.stage {
	case saleAuthorized:
		s.authorize(g)
	case saleCaptured:
		s.capture(g)
	case saleSettled:
		s.settle(g)
	case saleRefunded:
		s.refund(g)
	case saleDisputed:
		s.tells(g, "disputed", "status", "disputed", "responseText", "the holder does not recognize the payment")
		s.goOn(g, saleJudged, g.chance.between(15, 45)*day)
	case saleJudged:
		s.judge(g)
	}
}

func (s *sale) goOn(g *Generator, to stage, wait int64) {
	s.stage = to
	g.after(wait, s.flow, s)
}

func (s *sale) authorize(g *Generator) {
	if s.fate == saleIsDeclined {
		why := pickWeighted(g.chance, declines)
		s.tells(g, "declined", "status", "declined", "responseCode", why[0], "responseText", why[1])
		s.failed(g)
		return
	}
	s.tells(g, "authorized", "status", "authorized", "authCode", strings.ToUpper(g.chance.letters(2))+g.chance.digits(4), "responseCode", "00", "responseText", "approved")
	wait := int64(0) // most capture at once, in the same second
	if s.fate == saleIsVoided || g.chance.outOf1000(250) {
		wait = g.chance.between(10*minute, 20*hour)
	}
	s.goOn(g, saleCaptured, wait)
}

func (s *sale) capture(g *Generator) {
	if s.fate == saleIsVoided {
		s.tells(g, "voided", "status", "voided")
		s.failed(g)
		return
	}
	s.tells(g, "captured", "status", "captured")
	s.captured = g.now
	g.batch.take(s.cents)
	s.succeeded(g)
	s.stage = saleSettled
	g.at(g.settlement(1, 9), s.flow, s)
}

func (s *sale) settle(g *Generator) {
	patch := []string{"status", "settled", "settledDate", g.date()}
	if g.batch.lastClosed > s.captured {
		patch = append(patch, "batch", g.batch.lastID)
	}
	s.tells(g, "settled", patch...)
	switch s.fate {
	case saleIsRefunded:
		s.goOn(g, saleRefunded, g.chance.between(hour, 20*day))
	case saleIsDisputed:
		s.goOn(g, saleDisputed, g.chance.between(3*day, 30*day))
	default:
		s.ends()
	}
}

// refund gives back all that is left, or half of the time a part of it first.
func (s *sale) refund(g *Generator) {
	left := s.cents - s.refunded
	action, given := "refunded", left
	if s.refunded == 0 && left > 1 && g.chance.outOf1000(500) {
		action, given = "partially_refunded", g.chance.between(1, left-1)
	}
	s.refunded += given
	reason := snapshot.ObjectOf(members("refundReason", pick(g.chance, []string{"returned", "damaged", "goodwill"}))...)
	g.tell(s.flow, &s.resource, action, g.author(),
		append(members("status", action, "refundedAmount", dollars(s.refunded)), snapshot.Member{Name: "metadata", Value: reason})...)
	if s.refunded < s.cents && g.chance.outOf1000(300) {
		s.goOn(g, saleRefunded, g.chance.between(day, 10*day))
		return
	}
	s.ends()
}

func (s *sale) judge(g *Generator) {
	if g.chance.outOf1000(400) {
		s.tells(g, "dispute_won", "status", "settled", "responseText", "decided for the merchant")
	} else {
		s.tells(g, "dispute_lost", "status", "charged_back", "responseText", "decided for the holder")
	}
	s.ends()
}
