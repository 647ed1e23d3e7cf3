package history

import (
	"fmt"

	"tollhouse/store/snapshot"
)

// payment is what a transaction by card and one by ACH have in common.
type payment struct {
	resource
	flow    flow
	account *account
	cents   int64
	payee   payee // whom its outcome is told to, or nil
	stage   stage
	fate    fate
}

// payee waits for a payment: an invoice or a schedule.
type payee interface {
	paid(g *Generator, cents int64)
	refused(g *Generator)
}

// stage is what the next step of a life will tell of, unless its fate is another.
type stage uint8

// fate is what will become of a life, drawn at its beginning.
type fate uint8

// dollars writes an amount as the API has it.
func dollars(cents int64) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

// price draws an amount: mostly small, rarely large.
func (g *Generator) price() int64 {
	bounds := pickWeighted(g.chance, []weighted[[2]int64]{{60, [2]int64{450, 9_999}}, {30, [2]int64{10_000, 99_999}}, {10, [2]int64{100_000, 499_999}}})
	return g.chance.between(bounds[0], bounds[1])
}

// order is what a payment is for, when it is not for a sale over the counter.
type order struct {
	cents       int64
	description string
	fields      []snapshot.Member // that say what it belongs to
	payee       payee
}

// beginPayment takes a payment from the account, by its method.
func (g *Generator) beginPayment(a *account, o order) {
	p := payment{resource: resource{kind: "transaction", id: g.chance.id("txn_")}, account: a, cents: o.cents, payee: o.payee}
	a.open++
	a.customer.open++
	if a.card {
		(&sale{payment: p}).begin(g, o)
		return
	}
	(&debit{payment: p}).begin(g, o)
}

// created tells of a transaction's beginning.
func (p *payment) created(g *Generator, source string, o order) {
	fields := members("customer", p.account.customer.id, "account", p.account.id, "type", "sale", "status", "pending",
		"amount", dollars(p.cents), "currency", "USD", "description", o.description, "transactionDate", g.date())
	for _, name := range []string{"method", "brand", "last4"} {
		if value, ok := p.account.snapshot.Member(name); ok {
			fields = append(fields, snapshot.Member{Name: name, Value: value})
		}
	}
	channel := "counter"
	if o.payee != nil {
		channel = "on file"
	}
	metadata := snapshot.ObjectOf(members("channel", channel, "order", g.chance.letters(6))...)
	fields = append(append(fields, o.fields...), snapshot.Member{Name: "metadata", Value: metadata})
	g.tell(p.flow, &p.resource, "created", source, fields...)
}

// tells tells of a step that the platform took.
func (p *payment) tells(g *Generator, action string, patch ...string) {
	g.tell(p.flow, &p.resource, action, bySystem, members(patch...)...)
}

// ends lets go of those whom the payment held.
func (p *payment) ends() {
	p.account.open--
	p.account.customer.open--
}

func (p *payment) succeeded(g *Generator) {
	if p.payee != nil {
		p.payee.paid(g, p.cents)
	}
}

func (p *payment) failed(g *Generator) {
	p.ends()
	if p.payee != nil {
		p.payee.refused(g)
	}
}

// settlement returns when banks report on the n-th banking day from now, in that
// hour: all of a day's payments within the same few seconds, as the lines of one
// file. So every history has seconds with many events.
func (g *Generator) settlement(n, hourOfDay int64) int64 {
	return bankingDaysAfter(g.now, n) + hourOfDay*hour + g.chance.below(settlementSeconds)*second
}

const settlementSeconds = 4
