package history

import "fmt"

// openBatch collects the captured sales until it is closed: daily, when a few
// thousand events happen a week; more often in a busier history.
type openBatch struct {
	id     string
	number int
	count  int64
	cents  int64

	lastID     string // of the batch that was closed last
	lastClosed int64
}

func (b *openBatch) open(g *Generator) {
	b.id, b.count, b.cents = g.chance.id("bat_"), 0, 0
	b.number++
}

func (b *openBatch) take(cents int64) {
	b.count++
	b.cents += cents
}

// closeBatch closes the open batch, whose sum is deposited.
func (g *Generator) closeBatch() bool {
	b := &g.batch
	if b.count == 0 {
		return false
	}
	closed := &resource{kind: "batch", id: b.id}
	g.tell(batches, closed, "closed", bySystem, members("number", fmt.Sprint(b.number), "status", "closed", "count", fmt.Sprint(b.count),
		"amount", dollars(b.cents), "currency", "USD", "closedDate", g.date())...)
	d := &deposit{resource: resource{kind: "deposit", id: g.chance.id("dep_")}, batch: b.id, cents: b.cents}
	b.lastID, b.lastClosed = b.id, g.now
	b.open(g)
	g.at(g.now, batches, d)
	return true
}

// deposit is the sum of a batch on its way to the bank.
type deposit struct {
	resource
	batch string
	cents int64
	made  bool
}

func (d *deposit) step(g *Generator) {
	if d.made {
		g.tell(batches, &d.resource, "settled", bySystem, members("status", "settled", "settledDate", g.date())...)
		return
	}
	d.made = true
	g.tell(batches, &d.resource, "created", bySystem, members("batch", d.batch, "status", "pending", "amount", dollars(d.cents), "currency", "USD", "depositDate", g.date())...)
	g.at(g.settlement(1, 11), batches, d)
}
