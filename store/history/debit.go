package history

// debit is a payment by ACH: created, submitted with the next file, settled one
// to four banking days later; or returned, or refused by the processor.
type debit struct{ payment }

const (
	debitSubmitted stage = iota
	debitDecided
	debitCorrected
	debitSettled
)

const (
	debitGoesWell fate = iota
	debitIsReturned
	debitIsRefused
	debitIsCorrected
)

// debitFates adds up to 1000.
var debitFates = []weighted[fate]{{976, debitGoesWell}, {15, debitIsReturned}, {4, debitIsRefused}, {5, debitIsCorrected}}

// The return codes of the Nacha rules that are seen most.
var achReturns = []weighted[[2]string]{
	{60, [2]string{"R01", "insufficient funds"}}, {8, [2]string{"R02", "account closed"}}, {10, [2]string{"R03", "no account, or it cannot be located"}},
	{6, [2]string{"R04", "invalid account"}}, {5, [2]string{"R08", "payment stopped"}}, {4, [2]string{"R10", "the holder says it was not authorized"}},
	{4, [2]string{"R29", "the corporate holder says it was not authorized"}},
	{1, [2]string{"R09", "uncollected funds"}}, {1, [2]string{"R16", "account frozen"}}, {1, [2]string{"R20", "not a transaction account"}},
}

// correction is a notice of change: what was wrong.
type correction struct{ code, wrong string }

var corrections = []weighted[correction]{
	{45, correction{"C01", "incorrect account number"}}, {25, correction{"C02", "incorrect routing number"}}, {12, correction{"C03", "incorrect routing and account numbers"}},
	{6, correction{"C04", "incorrect name of the receiver"}}, {12, correction{"C05", "incorrect transaction code"}},
}

var processErrors = [][2]string{
	{"E03", "the account does not match the bank"}, {"E11", "the bank does not take this entry class"}, {"E20", "over the limit of the originator"},
}

// beginDebit collects something from a bank account.
func (g *Generator) beginDebit() bool {
	a := g.anyAccount(func(a *account) bool { return !a.card && a.mayPay(g) })
	if a == nil {
		return false
	}
	g.beginPayment(a, order{cents: g.price(), description: pick(g.chance, goods)})
	return true
}

func (d *debit) begin(g *Generator, o order) {
	d.flow, d.fate = achPayments, pickWeighted(g.chance, debitFates)
	source := bySync
	if o.payee != nil {
		source = bySystem
	}
	d.created(g, source, o)
	g.at(nextFile(g.now)+g.chance.below(2)*second, d.flow, d)
}

func (d *debit) step(g *Generator) {
	switch d.stage {
	case debitSubmitted:
		d.submit(g)
	case debitDecided:
		d.decide(g)
	case debitCorrected:
		d.stage = debitSettled
		g.at(g.settlement(1, 10), d.flow, d)
		d.account.correct(g)
	case debitSettled:
		d.tells(g, "ach_settled", "status", "settled", "settledDate", g.date())
		d.ends()
		d.succeeded(g)
	}
}

func (d *debit) submit(g *Generator) {
	d.tells(g, "ach_submitted", "status", "submitted")
	days := g.chance.between(1, 4)
	switch d.fate {
	case debitGoesWell:
		d.stage = debitSettled
	case debitIsRefused:
		d.stage = debitDecided
		g.after(g.chance.between(2*minute, 3*hour), d.flow, d)
		return
	default:
		d.stage, days = debitDecided, max(days, 2) // banks answer by the second day at the earliest
	}
	g.at(g.settlement(days, 10), d.flow, d)
}

func (d *debit) decide(g *Generator) {
	switch d.fate {
	case debitIsRefused:
		why := pick(g.chance, processErrors)
		d.tells(g, "ach_process_error", "status", "failed", "responseCode", why[0], "responseText", "declined by the processor", "returnReason", why[1])
		d.failed(g)
	case debitIsReturned:
		why := pickWeighted(g.chance, achReturns)
		d.tells(g, "ach_return", "status", "returned", "returnCode", why[0], "returnReason", why[1])
		switch why[0] {
		case "R02", "R03", "R04", "R16", "R20": // nobody tries such an account again
			d.account.status = "unusable"
		}
		d.failed(g)
	default:
		c := pickWeighted(g.chance, corrections)
		d.tells(g, "ach_notice_of_change", "responseCode", c.code, "responseText", c.wrong)
		d.stage = debitCorrected
		d.account.wrong = c.code
		g.at(g.now, accountAutoupdate, d)
	}
}

// correct tells that a bank account was changed as a notice of change asked.
func (a *account) correct(g *Generator) {
	last4 := g.chance.digits(4)
	sort, _ := a.snapshot.Member("accountType")
	patch := members("last4", last4, "displayName", cardName(sort.Text(), last4))
	switch a.wrong {
	case "C02", "C03":
		patch = append(patch, members("bankName", g.bank())...)
	case "C04":
		patch = members("holder", pick(g.chance, firstNames)+" "+a.customer.surname)
	}
	g.tell(accountAutoupdate, &a.resource, "autoupdate", bySystem, append(patch, members("statusReason", "notice of change "+a.wrong)...)...)
}
