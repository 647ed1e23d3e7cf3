package history

// flow is a part of what happens, with its share of all events.
type flow uint8

const (
	customerCreated flow = iota
	customerUpdated
	customerDeleted
	accountCreated
	accountAutoupdate
	accountUpdated
	accountExpiring
	accountExpired
	accountDeleted
	cardPayments
	achPayments
	invoices
	schedules
	batches
	flowCount
)

// shareWhole is what the shares add up to.
const shareWhole = 10_000

// shares is the mix. It is plausible and no more than that: no statistics of
// anybody's are behind it. Events of a kind that come one by one have a share
// each; of those that follow from each other, the whole life has one.
var shares = [flowCount]int64{
	customerCreated: 500, customerUpdated: 350, customerDeleted: 50,
	accountCreated: 500, accountAutoupdate: 150, accountUpdated: 100,
	accountExpiring: 100, accountExpired: 30, accountDeleted: 20,
	cardPayments: 3800, achPayments: 2600,
	invoices: 1500, schedules: 200,
	batches: 100,
}

// beginnings begin something new in a flow, with its first event. They report
// false, and nothing has happened, when there is nobody to whom it could happen.
var beginnings = [flowCount]func(*Generator) bool{
	customerCreated: (*Generator).createCustomer, customerUpdated: (*Generator).updateCustomer,
	customerDeleted: (*Generator).deleteCustomer,
	accountCreated:  (*Generator).createSecondAccount, accountAutoupdate: (*Generator).autoupdateAccount,
	accountUpdated: (*Generator).updateAccount, accountExpiring: (*Generator).warnOfExpiry,
	accountExpired: (*Generator).expireAccount, accountDeleted: (*Generator).deleteAccount,
	cardPayments: (*Generator).beginSale, achPayments: (*Generator).beginDebit,
	invoices: (*Generator).beginInvoice, schedules: (*Generator).beginSchedule,
	batches: (*Generator).closeBatch,
}

// begin begins something new in one of the flows that lag behind their shares,
// the more likely the farther it lags. What is pending counts as if it had
// happened, else flows with long waits would begin too much at first.
func (g *Generator) begin() {
	var lags [flowCount]int64
	for f, share := range shares {
		lags[f] = max(share*(g.counted+1)-shareWhole*g.counts[f], 0)
	}
	for {
		var total int64
		for _, lag := range lags {
			total += lag
		}
		if total == 0 {
			break
		}
		at, chosen := g.chance.below(total), 0
		for lags[chosen] <= at {
			at -= lags[chosen]
			chosen++
		}
		if beginnings[chosen](g) {
			return
		}
		lags[chosen] = 0
	}
	g.createCustomer() // always possible: newcomers depend on nobody
}
