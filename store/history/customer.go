package history

import (
	"fmt"
	"strings"

	"tollhouse/store/snapshot"
)

// customer is somebody who pays.
type customer struct {
	resource
	surname  string
	slot     int // in the town
	accounts []*account
	open     int // payments, invoices and schedules that go on; while there are any, nobody deletes it
}

// town holds those to whom something may happen: the customers and payment
// accounts that are there.
type town struct {
	customers []*customer
	accounts  []*account
	newcomers int // ever
}

const (
	// customersMax bounds the town. When it is full, somebody about whom nothing
	// more is heard makes room.
	customersMax = 4096
	// lookups is how many are asked, at random, whether something may happen to
	// them, before it is left.
	lookups = 24
)

// anyCustomer looks for a customer who answers to want.
func (g *Generator) anyCustomer(want func(*customer) bool) *customer {
	if len(g.town.customers) == 0 {
		return nil
	}
	for range lookups {
		if c := pick(g.chance, g.town.customers); want(c) {
			return c
		}
	}
	return nil
}

// createCustomer begins a customer; four in five soon have a payment account.
func (g *Generator) createCustomer() bool {
	if len(g.town.customers) == customersMax {
		g.forgetSomebody()
	}
	g.town.newcomers++
	first, surname := pick(g.chance, firstNames), g.surname()
	company, displayName, displayAs := "", first+" "+surname, "contact"
	if g.chance.outOf1000(600) {
		company = surname + " " + pick(g.chance, trades)
		displayName, displayAs = company, "company"
	}
	c := &customer{resource: resource{kind: "customer", id: g.chance.id("cus_")}, surname: surname, slot: len(g.town.customers)}
	g.town.customers = append(g.town.customers, c)
	fields := members(
		"customerRef", fmt.Sprintf("%s-%05d", strings.ToUpper(surname[:3]), g.town.newcomers%100_000),
		"displayName", displayName, "company", company, "firstName", first, "lastName", surname, "displayAs", displayAs)
	fields = append(fields, g.address()...)
	fields = append(fields, members("phone", g.phone(), "email", g.email(first, displayName))...)
	g.tell(customerCreated, &c.resource, "created", g.author(), fields...)
	if g.chance.outOf1000(800) {
		g.after(g.chance.between(20*second, 15*minute), accountCreated, &newcomer{c})
	}
	return true
}

// newcomer is a customer whose first payment account is about to be put on file.
type newcomer struct{ customer *customer }

func (n *newcomer) step(g *Generator) {
	if !n.customer.deleted {
		g.createAccount(n.customer)
	}
}

func (g *Generator) surname() string { return pick(g.chance, nameStems) + pick(g.chance, nameEndings) }

func (g *Generator) address() []snapshot.Member {
	unit := ""
	if g.chance.outOf1000(250) {
		unit = fmt.Sprintf("Unit %d", g.chance.between(1, 40))
	}
	return members(
		"address1", fmt.Sprintf("%d %s", g.chance.between(1, 299), pick(g.chance, streets)), "address2", unit,
		"city", pick(g.chance, nameStems)+pick(g.chance, cityEndings), "state", pick(g.chance, states),
		"zip", fmt.Sprintf("%05d", g.chance.between(100, 499)), // the United States give none below 00501
		"country", "US")
}

// phone returns a number of the hundred that are kept free for fiction.
func (g *Generator) phone() string { return pick(g.chance, areaCodes) + "55501" + g.chance.digits(2) }

func (g *Generator) email(first, at string) string {
	return strings.ToLower(first + "@" + strings.ReplaceAll(at, " ", "") + ".example")
}

// author is who keeps the books: one of the clerks, or the program that does.
func (g *Generator) author() string {
	if g.chance.outOf1000(450) {
		return bySync
	}
	return pick(g.chance, byClerks)
}

func (g *Generator) updateCustomer() bool {
	c := g.anyCustomer(func(*customer) bool { return true })
	if c == nil {
		return false
	}
	var patch []snapshot.Member
	switch g.chance.below(5) {
	case 0:
		patch = g.address()
	case 1:
		patch = members("phone", g.phone())
	case 2:
		patch = members("phoneExt", fmt.Sprint(g.chance.between(10, 999)))
	case 3:
		patch = members("email", g.email(pick(g.chance, firstNames), c.surname+g.chance.letters(3)))
	default:
		patch = members("notes", fmt.Sprintf("%s (%s)", pick(g.chance, customerNote), g.date()))
	}
	if !c.changes(patch) {
		return false
	}
	g.tell(customerUpdated, &c.resource, "updated", g.author(), patch...)
	return true
}

// changes reports whether a patch of texts would change the resource: an update
// that changes nothing is not an event.
func (r *resource) changes(patch []snapshot.Member) bool {
	for _, m := range patch {
		if was, _ := r.snapshot.Member(m.Name); !was.Equal(m.Value) {
			return true
		}
	}
	return false
}

// deleteCustomer deletes one who owes nothing and has no payment account.
func (g *Generator) deleteCustomer() bool {
	c := g.anyCustomer(func(c *customer) bool { return c.open == 0 && len(c.accounts) == 0 })
	if c == nil {
		return false
	}
	g.leave(c)
	g.tell(customerDeleted, &c.resource, "deleted", g.author())
	return true
}

// forgetSomebody makes room: one of whom nothing is going on, if that is easily
// found.
func (g *Generator) forgetSomebody() {
	c := g.anyCustomer(func(c *customer) bool { return c.open == 0 })
	if c == nil {
		c = pick(g.chance, g.town.customers)
	}
	g.leave(c)
}

// leave takes a customer, and the accounts that it has, out of the town.
func (g *Generator) leave(c *customer) {
	for len(c.accounts) > 0 {
		g.drop(c.accounts[0])
	}
	last := g.town.customers[len(g.town.customers)-1]
	g.town.customers[c.slot], last.slot = last, c.slot
	g.town.customers[len(g.town.customers)-1] = nil
	g.town.customers = g.town.customers[:len(g.town.customers)-1]
}
