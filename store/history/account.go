package history

import (
	"fmt"
	"slices"
	"strings"

	"tollhouse/store/snapshot"
)

// account is a card or a bank account on file.
type account struct {
	resource
	customer *customer
	slot     int // in the town
	card     bool
	expires  int // months since the year 0, of a card
	status   string
	open     int    // payments that go on
	wrong    string // the code of a notice of change that is being worked off
}

// accountsEach bounds how many payment accounts a customer has.
const accountsEach = 3

var cardBrands = []weighted[string]{{50, "visa"}, {30, "mastercard"}, {12, "amex"}, {8, "discover"}}

// month returns the month of now, counted from the year 0.
func (g *Generator) month() int {
	date := dateOf(g.now)
	return date.Year()*12 + int(date.Month()) - 1
}

// expiryText is the way it stands on a card: MMYY.
func expiryText(month int) string { return fmt.Sprintf("%02d%02d", month%12+1, month/12%100) }

// mayPay reports whether payments can be taken from the account now.
func (a *account) mayPay(g *Generator) bool {
	return !a.deleted && (a.status == "active" || a.status == "expiring") && (!a.card || a.expires >= g.month())
}

// anyAccount looks for a payment account that answers to want.
func (g *Generator) anyAccount(want func(*account) bool) *account {
	if len(g.town.accounts) == 0 {
		return nil
	}
	for range lookups {
		if a := pick(g.chance, g.town.accounts); want(a) {
			return a
		}
	}
	return nil
}

// ofCustomer returns an account from which the customer can pay, or nil.
func (g *Generator) ofCustomer(c *customer) *account {
	i := slices.IndexFunc(c.accounts, func(a *account) bool { return a.mayPay(g) })
	if i < 0 {
		return nil
	}
	return c.accounts[i]
}

func (g *Generator) createAccount(c *customer) {
	a := &account{
		resource: resource{kind: "account", id: g.chance.id("pa_")}, customer: c, slot: len(g.town.accounts),
		card: g.chance.outOf1000(600), status: "active",
	}
	isDefault := "0"
	if len(c.accounts) == 0 {
		isDefault = "1"
	}
	c.accounts = append(c.accounts, a)
	g.town.accounts = append(g.town.accounts, a)
	holder, _ := c.snapshot.Member("displayName")
	var fields []snapshot.Member
	if a.card {
		fields = g.cardFields(a, pickWeighted(g.chance, cardBrands), holder.Text())
	} else {
		fields = g.bankFields(holder.Text())
	}
	fields = append(fields, members("customer", c.id, "token", "tok_"+g.chance.letters(20), "isDefault", isDefault,
		"status", a.status, "dateAdded", g.date())...)
	g.tell(accountCreated, &a.resource, "created", g.author(), fields...)
}

func (g *Generator) cardFields(a *account, brand, holder string) []snapshot.Member {
	a.expires = g.month() + int(g.chance.between(4, 47))
	if g.chance.outOf1000(600) { // cards that were put on file long after they were issued
		a.expires = g.month() + int(g.chance.between(0, 3))
	}
	last4 := g.chance.digits(4)
	return members("method", "card", "displayName", cardName(brand, last4), "holder", holder, "brand", brand, "last4", last4, "expiry", expiryText(a.expires))
}

func cardName(brand, last4 string) string {
	return strings.ToUpper(brand[:1]) + brand[1:] + " ending in " + last4
}

func (g *Generator) bankFields(holder string) []snapshot.Member {
	sort := pickWeighted(g.chance, []weighted[string]{{80, "checking"}, {20, "savings"}})
	last4 := g.chance.digits(4)
	return members("method", "ach", "displayName", cardName(sort, last4), "holder", holder, "bankName", g.bank(), "accountType", sort, "last4", last4)
}

func (g *Generator) bank() string { return g.surname() + " " + pick(g.chance, bankEndings) }

// createSecondAccount gives another payment account to a customer who has one.
func (g *Generator) createSecondAccount() bool {
	c := g.anyCustomer(func(c *customer) bool { return len(c.accounts) > 0 && len(c.accounts) < accountsEach })
	if c == nil {
		return false
	}
	g.createAccount(c)
	return true
}

func (g *Generator) setStatus(a *account, status string) snapshot.Member {
	a.status = status
	return snapshot.Member{Name: "status", Value: snapshot.Text(status)}
}

// autoupdateAccount tells what the bank that issued a card let us know: a new
// expiry, a new number, or that the account was closed. Half of the time it is a
// card that is about to expire.
func (g *Generator) autoupdateAccount() bool {
	isCard := func(a *account) bool { return a.card && a.status != "closed" }
	var a *account
	if g.chance.outOf1000(500) {
		a = g.anyAccount(func(a *account) bool { return isCard(a) && a.status != "active" })
	}
	if a == nil {
		a = g.anyAccount(isCard)
	}
	if a == nil {
		return false
	}
	news := g.chance.below(100)
	if news >= 90 {
		g.tell(accountAutoupdate, &a.resource, "autoupdate_closed", bySystem,
			append(members("statusReason", "the issuer closed the account"), g.setStatus(a, "closed"))...)
		return true
	}
	a.expires = max(a.expires, g.month()) + int(g.chance.between(30, 48))
	patch := append(members("expiry", expiryText(a.expires), "statusReason", ""), g.setStatus(a, "active"))
	if news >= 60 {
		brand, _ := a.snapshot.Member("brand")
		last4 := g.chance.digits(4)
		patch = append(patch, members("last4", last4, "displayName", cardName(brand.Text(), last4))...)
	}
	g.tell(accountAutoupdate, &a.resource, "autoupdate", bySystem, patch...)
	return true
}

func (g *Generator) updateAccount() bool {
	a := g.anyAccount(func(a *account) bool { return a.status != "closed" })
	if a == nil {
		return false
	}
	patch := members("holder", pick(g.chance, firstNames)+" "+a.customer.surname)
	if !a.card && g.chance.outOf1000(500) {
		patch = members("bankName", g.bank())
	}
	if !a.changes(patch) {
		return false
	}
	g.tell(accountUpdated, &a.resource, "updated", g.author(), patch...)
	return true
}

func (g *Generator) warnOfExpiry() bool {
	a := g.anyAccount(func(a *account) bool {
		return a.card && a.status == "active" && a.expires >= g.month() && a.expires <= g.month()+1
	})
	if a == nil {
		return false
	}
	g.tell(accountExpiring, &a.resource, "expiring", bySystem,
		g.setStatus(a, "expiring"), snapshot.Member{Name: "statusReason", Value: snapshot.Text("expires " + expiryText(a.expires))})
	return true
}

func (g *Generator) expireAccount() bool {
	a := g.anyAccount(func(a *account) bool {
		return a.card && (a.status == "active" || a.status == "expiring") && a.expires < g.month()
	})
	if a == nil {
		return false
	}
	g.tell(accountExpired, &a.resource, "expired", bySystem,
		g.setStatus(a, "expired"), snapshot.Member{Name: "statusReason", Value: snapshot.Text("expired " + expiryText(a.expires))})
	return true
}

// deleteAccount deletes one from which no payment is under way.
func (g *Generator) deleteAccount() bool {
	a := g.anyAccount(func(a *account) bool { return a.open == 0 })
	if a == nil {
		return false
	}
	g.drop(a)
	g.tell(accountDeleted, &a.resource, "deleted", g.author())
	return true
}

// drop takes a payment account out of the town.
func (g *Generator) drop(a *account) {
	c := a.customer
	c.accounts = slices.DeleteFunc(c.accounts, func(other *account) bool { return other == a })
	last := g.town.accounts[len(g.town.accounts)-1]
	g.town.accounts[a.slot], last.slot = last, a.slot
	g.town.accounts[len(g.town.accounts)-1] = nil
	g.town.accounts = g.town.accounts[:len(g.town.accounts)-1]
}
