package history

import (
	"fmt"
	"time"

	"tollhouse/store/snapshot"
)

// invoice asks a customer for an amount by a date: created, sent, viewed, paid,
// at once or in two parts; or overdue, reminded of, and then paid or written off;
// or voided.
type invoice struct {
	resource
	customer *customer
	total    int64 // cents
	received int64
	asked    int64 // what the payment under way is for
	due      int64 // the midnight after which it is overdue
	stage    stage
	fate     fate
	refusals int
	reminded int
}

const (
	invoiceSent stage = iota
	invoiceViewed
	invoiceVoided
	invoiceCharged // a payment begins, or money comes in another way
	invoicePaid
	invoiceRefused
	invoiceOverdue
	invoiceReminded
	invoiceWrittenOff
)

const (
	invoiceIsPaid fate = iota
	invoiceIsPaidInParts
	invoiceIsLate
	invoiceIsVoided
)

// invoiceFates adds up to 1000.
var invoiceFates = []weighted[fate]{{750, invoiceIsPaid}, {90, invoiceIsPaidInParts}, {150, invoiceIsLate}, {10, invoiceIsVoided}}

var termsDays = []weighted[int64]{{20, 7}, {50, 14}, {30, 30}}

const (
	refusalsMax  = 2 // payments that are tried before an invoice is left to become overdue
	remindersMax = 3
)

func (g *Generator) beginInvoice() bool {
	c := g.anyCustomer(func(c *customer) bool { return g.ofCustomer(c) != nil })
	if c == nil {
		return false
	}
	inv := &invoice{resource: resource{kind: "invoice", id: g.chance.id("inv_")}, customer: c, fate: pickWeighted(g.chance, invoiceFates)}
	c.open++
	subtotal := g.price()
	tax := (subtotal*6 + 50) / 100
	inv.total = subtotal + tax
	terms := pickWeighted(g.chance, termsDays)
	inv.due = dayOf(g.now) + (terms+1)*day
	first := g.chance.between(1, subtotal)
	fields := members("customer", c.id, "number", fmt.Sprintf("%07d", g.made%10_000_000), "status", "draft", "currency", "USD",
		"subtotal", dollars(subtotal), "tax", dollars(tax), "total", dollars(inv.total), "amountPaid", "0.00", "amountDue", dollars(inv.total),
		"issueDate", g.date(), "dueDate", dateOf(inv.due-day).Format(time.DateOnly), "description", pick(g.chance, goods))
	fields = append(fields, snapshot.Member{Name: "lines", Value: g.invoiceLines(first, subtotal-first)})
	g.tell(invoices, &inv.resource, "created", g.author(), fields...)
	g.after(g.chance.between(0, 30*minute), invoices, inv)
	return true
}

// invoiceLines lists the goods of an invoice; amounts that are nothing are left
// out.
func (g *Generator) invoiceLines(cents ...int64) snapshot.Value {
	b := []byte{'['}
	for _, amount := range cents {
		if amount == 0 {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = snapshot.ObjectOf(members("description", pick(g.chance, goods), "quantity", "1", "amount", dollars(amount))...).Append(b)
	}
	lines, err := snapshot.Parse(append(b, ']'), snapshot.DepthMax)
	if err != nil {
		panic("history: the lines of an invoice are not JSON: " + err.Error())
	}
	return lines
}

func (inv *invoice) goOn(g *Generator, to stage, wait int64) {
	inv.stage = to
	g.after(wait, invoices, inv)
}

func (inv *invoice) tells(g *Generator, action, source string, patch ...string) {
	g.tell(invoices, &inv.resource, action, source, members(patch...)...)
}

func (inv *invoice) ends() { inv.customer.open-- }

func (inv *invoice) step(g *Generator) {
	switch inv.stage {
	case invoiceSent:
		inv.tells(g, "sent", bySync, "status", "sent")
		inv.afterSending(g)
	case invoiceViewed:
		inv.tells(g, "viewed", bySystem, "status", "viewed")
		inv.decide(g)
	case invoiceVoided:
		inv.tells(g, "voided", g.author(), "status", "voided", "amountDue", "0.00")
		inv.ends()
	case invoiceCharged:
		inv.charge(g)
	case invoicePaid:
		inv.receive(g)
	case invoiceRefused:
		inv.refuse(g)
	case invoiceOverdue:
		inv.tells(g, "overdue", bySystem, "status", "overdue")
		inv.goOn(g, invoiceReminded, g.chance.between(1, 3)*day)
	case invoiceReminded:
		inv.remind(g)
	case invoiceWrittenOff:
		inv.tells(g, "written_off", g.author(), "status", "written_off", "amountDue", "0.00")
		inv.ends()
	}
}

func (inv *invoice) afterSending(g *Generator) {
	switch {
	case inv.fate == invoiceIsVoided:
		inv.goOn(g, invoiceVoided, g.chance.between(hour, 3*day))
	case g.chance.outOf1000(850):
		inv.goOn(g, invoiceViewed, g.chance.between(10*minute, 2*day))
	default:
		inv.decide(g)
	}
}

// decide is what the customer does with the invoice: pay it in time, or not.
func (inv *invoice) decide(g *Generator) {
	if inv.fate == invoiceIsLate {
		inv.becomeOverdue(g)
		return
	}
	inv.asked = inv.total
	if inv.fate == invoiceIsPaidInParts {
		inv.asked = g.chance.between(inv.total/4, inv.total*3/4)
	}
	inv.goOn(g, invoiceCharged, g.chance.between(0, max(inv.due-g.now-5*day, day)))
}

func (inv *invoice) becomeOverdue(g *Generator) {
	inv.stage = invoiceOverdue
	g.at(max(inv.due, dayOf(g.now)+day)+openingHour*hour+g.chance.below(settlementSeconds)*second, invoices, inv)
}

// charge begins the payment. A customer whose accounts are all gone sends a
// check.
func (inv *invoice) charge(g *Generator) {
	a := g.ofCustomer(inv.customer)
	if a == nil {
		inv.receive(g)
		return
	}
	number, _ := inv.snapshot.Member("number")
	g.beginPayment(a, order{cents: inv.asked, description: "Invoice " + number.Text(), fields: members("invoice", inv.id), payee: inv})
}

func (inv *invoice) paid(g *Generator, _ int64) { inv.goOn(g, invoicePaid, 0) }

func (inv *invoice) refused(g *Generator) { inv.goOn(g, invoiceRefused, 0) }

func (inv *invoice) receive(g *Generator) {
	inv.received += inv.asked
	left := inv.total - inv.received
	if left > 0 {
		inv.tells(g, "partially_paid", bySystem, "status", "partially_paid", "amountPaid", dollars(inv.received), "amountDue", dollars(left))
		inv.asked = left
		inv.goOn(g, invoiceCharged, g.chance.between(day, 12*day))
		return
	}
	inv.tells(g, "paid", bySystem, "status", "paid", "amountPaid", dollars(inv.received), "amountDue", "0.00", "paidDate", g.date())
	inv.ends()
}

func (inv *invoice) refuse(g *Generator) {
	inv.refusals++
	inv.tells(g, "payment_failed", bySystem, "status", "payment_failed", "notes", fmt.Sprintf("Payment refused on %s", g.date()))
	if inv.refusals < refusalsMax {
		inv.goOn(g, invoiceCharged, g.chance.between(2*day, 4*day))
		return
	}
	inv.becomeOverdue(g)
}

func (inv *invoice) remind(g *Generator) {
	inv.reminded++
	inv.tells(g, "reminder_sent", bySystem, "notes", fmt.Sprintf("Reminder %d sent on %s", inv.reminded, g.date()))
	switch {
	case inv.refusals < refusalsMax && g.chance.outOf1000(650):
		inv.asked = inv.total - inv.received
		inv.goOn(g, invoiceCharged, g.chance.between(2*hour, 6*day))
	case inv.reminded < remindersMax:
		inv.goOn(g, invoiceReminded, 7*day)
	default:
		inv.goOn(g, invoiceWrittenOff, 14*day)
	}
}
