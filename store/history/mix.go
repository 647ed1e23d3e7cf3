package history

// flow is one kind of activity: changes of customers or payment accounts, or the
// creation of something for them. Braces in a patch are filled in.
type flow struct {
	share                        int64    // of ten thousand events
	of, status                   string   // for whom, in which statuses; "" means no one
	low, high                    int64    // months until they expire
	kind, prefix, action, source string   // without a kind, which is created, they change themselves
	patches                      []string // used in turn
}

const (
	flowCount   = 16
	cardPayment = 0 // of the flows
	achPayment  = 1
	moveCount   = 38

	ever     int64 = 1 << 40 // months
	weekdays int64 = -1      // a unit: until banks report
	pay            = "pay"   // an action: not an event, but the payment of an invoice or schedule begins
)

const (
	address = "address1=${digit}${digit} ${street};city=${stem}mere;state=VT;zip=003${digit}${digit};country=US;phone=80255501${digit}${digit}"
	card    = "method=card;brand=${aBrand};expiry=${aDate};last4=${digit}${digit}${digit}${digit};displayName=${brand} ending in ${last4};" + onFile
	bank    = "method=ach;accountType=checking;bankName=${stem} ${aBank};last4=${digit}${digit}${digit}${digit};displayName=Checking ending in ${last4};" + onFile
	onFile  = "holder=${firstName} ${lastName};customer=${id};status=active;token=${aToken};dateAdded=${today}"
	payment = "account=${id};customer=${customer};method=${method};last4=${last4};type=sale;status=pending;amount=${cents};currency=USD;transactionDate=${today};description=${goods}"
	person  = "customerRef=${number};firstName=${first};lastName=${stem}${ending};email=${firstName}@${lastName}.example;" + address
	invoice = "customer=${customer};number=${number};status=draft;currency=USD;subtotal=${cents};tax=0.00;total=${cents};amountPaid=0.00;amountDue=${cents};issueDate=${today};dueDate=${fortnight};description=${goods}"
)

// flows is the mix. The shares are plausible, not measured.
var flows = [flowCount]flow{
	cardPayment: {3800, "card", "active expiring", 0, ever, "transaction", "txn_", "created", "till", []string{payment}},
	achPayment:  {2600, "ach", "active expiring", 0, ever, "transaction", "txn_", "created", "till", []string{payment}},

	{135, "card", "active expiring expired", -ever, 3, "", "", "autoupdate", "platform", []string{"expiry=${later};status=active", "expiry=${later};status=active;last4=${digit}${digit}${digit}${digit};displayName=${brand} ending in ${last4}"}},
	{500, "", "", 0, 0, "customer", "cus_", "created", "author", []string{person + ";displayName=${firstName} ${lastName}", person + ";displayAs=company;displayName=${lastName} ${trade};company=${displayName}"}},
	{350, "customer", "", 0, ever, "", "", "updated", "author", []string{address, "notes=Called on ${today}", "email=${firstName}@${stem}${ending}.example"}},
	{50, "customer", "", 0, ever, "", "", "deleted", "author", []string{""}},
	{500, "customer", "", 0, ever, "account", "pa_", "created", "author", []string{card, bank, card, bank, card}},
	{100, "card ach", "active expiring expired", -ever, ever, "", "", "updated", "author", []string{"holder=${first} ${stem}${ending}"}},
	{100, "card", "active", 0, 1, "", "", "expiring", "platform", []string{"status=expiring"}},
	{30, "card", "active expiring", -ever, -1, "", "", "expired", "platform", []string{"status=expired"}},
	{15, "card", "active expiring expired", -ever, ever, "", "", "autoupdate_closed", "platform", []string{"status=closed"}},
	{20, "card ach", "active expiring expired closed", -ever, ever, "", "", "deleted", "author", []string{""}},
	{1500, "card ach", "active expiring", 0, ever, "invoice", "inv_", "created", "author", []string{invoice}},
	{200, "card ach", "active expiring", 0, ever, "recurring", "rec_", "created", "author", []string{"customer=${customer};account=${id};status=active;amount=${cents};currency=USD;description=${goods}"}},
	{33, "", "", 0, 0, "batch", "bat_", "closed", "platform", []string{"status=closed;amount=${cents};currency=USD;closedDate=${today}"}},
	{67, "", "", 0, 0, "deposit", "dep_", "created", "platform", []string{"status=pending;amount=${cents};currency=USD;depositDate=${today}"}},
}

// move is what may happen after an action of a life: an event and its patch.
type move struct {
	after                 string
	odds, low, high, unit int64 // of 10,000; the remainder ends the life; units to wait for
	action, patch         string
}

// moves says what may follow what. A captured or settled payment charges its invoice
// or schedule; a failed one makes the charge fail.
var moves = [moveCount]move{
	{"card.created", 9200, 0, 1, second, "authorized", "status=authorized;authCode=${aToken};responseCode=00;responseText=approved"},
	{"card.created", 800, 0, 1, second, "declined", "status=declined;responseCode=51;responseText=insufficient funds"},
	{"card.authorized", 9890, 0, 0, second, "captured", "status=captured"},
	{"card.authorized", 110, 10, 1200, minute, "voided", "status=voided"},
	{"card.captured", 10_000, 1, 1, weekdays, "settled", "status=settled;settledDate=${today}"},
	{"card.settled", 110, 1, 480, hour, "refunded", "status=refunded;refundedAmount=${done}"},
	{"card.settled", 90, 1, 480, hour, "partially_refunded", "status=partially_refunded;refundedAmount=${done}"},
	{"card.settled", 11, 3, 30, day, "disputed", "status=disputed"},
	{"card.disputed", 4000, 15, 45, day, "dispute_won", "status=settled"},
	{"card.disputed", 6000, 15, 45, day, "dispute_lost", "status=charged_back"},
	{"ach.created", 10_000, 1, 1, weekdays, "ach_submitted", "status=submitted"},
	{"ach.ach_submitted", 40, 2, 180, minute, "ach_process_error", "status=failed;responseCode=E03;responseText=declined by the processor;returnReason=the account does not match the bank"},
	{"ach.ach_submitted", 90, 2, 4, weekdays, "ach_return", "status=returned;returnCode=R01;returnReason=insufficient funds"},
	{"ach.ach_submitted", 60, 2, 4, weekdays, "ach_return", "status=returned;returnCode=R03;returnReason=no such account"},
	{"ach.ach_submitted", 50, 2, 4, weekdays, "ach_notice_of_change", "responseCode=C01;responseText=incorrect account number"},
	{"ach.ach_submitted", 9760, 1, 4, weekdays, "ach_settled", "status=settled;settledDate=${today}"},
	{"ach.ach_notice_of_change", 10_000, 1, 1, weekdays, "ach_settled", "status=settled;settledDate=${today}"},
	{"ach.noticed", 10_000, 0, 0, second, "autoupdate", "last4=${digit}${digit}${digit}${digit};displayName=Checking ending in ${last4};statusReason=notice of change"},
	{"invoice.created", 10_000, 0, 30, minute, "sent", "status=sent"},
	{"invoice.sent", 9900, 10, 2880, minute, "viewed", "status=viewed"},
	{"invoice.sent", 100, 1, 72, hour, "voided", "status=voided;amountDue=0.00"},
	{"invoice.viewed", 7300, 0, 216, hour, pay, ""},
	{"invoice.viewed", 1000, 0, 216, hour, "partially_paid", "status=partially_paid;amountPaid=${done};amountDue=${rest}"},
	{"invoice.viewed", 1700, 15, 15, day, "overdue", "status=overdue"},
	{"invoice.partially_paid", 10_000, 24, 288, hour, pay, ""},
	{"invoice.charged", 10_000, 0, 0, second, "paid", "status=paid;amountPaid=${done};amountDue=${rest};paidDate=${today}"},
	{"invoice.refused", 10_000, 0, 0, second, "payment_failed", "status=payment_failed"},
	{"invoice.payment_failed", 5000, 48, 96, hour, pay, ""},
	{"invoice.payment_failed", 5000, 15, 15, day, "overdue", "status=overdue"},
	{"invoice.overdue", 10_000, 1, 3, day, "reminder_sent", "notes=Reminder sent on ${today}"},
	{"invoice.reminder_sent", 9000, 2, 144, hour, pay, ""},
	{"invoice.reminder_sent", 1000, 14, 14, day, "written_off", "status=written_off;amountDue=0.00"},
	{"recurring.created", 10_000, 7, 7, day, "updated", "lastDate=${today}"},
	{"recurring.updated", 10_000, 0, 0, second, pay, ""},
	{"recurring.charged", 9000, 7, 7, day, "updated", "lastDate=${today}"},
	{"recurring.charged", 1000, 0, 0, second, "completed", "status=completed"},
	{"recurring.refused", 10_000, 0, 0, second, "deleted", ""},
	{"deposit.created", 10_000, 1, 1, weekdays, "settled", "status=settled;settledDate=${today}"},
}

// lists are words to choose from. All names are invented.
var lists = map[string][]string{
	"first":    {"Ambrelle", "Brindor", "Calvessa", "Dorrimund", "Elvisande", "Fenwicka", "Gasparel", "Hollivar", "Ismerel", "Jorvanna", "Kestrine", "Lorimund", "Mirrabex", "Nolwenna", "Orlandine", "Pellimor"},
	"stem":     {"Bracken", "Candle", "Dapple", "Ember", "Fennel", "Gorse", "Hazel", "Inkle", "Juniper", "Kettle", "Lichen", "Marrow", "Nettle", "Otter", "Pebble", "Quill", "Russet", "Sedge", "Thistle", "Umber"},
	"ending":   {"bottle", "dabble", "fennick", "gander", "lantern", "morrow", "nimble", "quist", "rattle", "sparrow", "thimble", "wend", "winkle"},
	"trade":    {"Apiary", "Bakehouse", "Bindery", "Boatyard", "Clockworks", "Cycle Works", "Dye House", "Glassworks", "Joinery", "Letterpress", "Pottery", "Tea Room"},
	"street":   {"Quarry Lane", "Mill Street", "Tannery Road", "Kiln Lane", "Cooper Yard", "Heron Row", "Lantern Hill", "Ropewalk", "Orchard Steps", "Weir Street"},
	"aBank":    {"Savings", "Trust", "Credit Union", "Mutual"},
	"goods":    {"Standing order", "Repairs", "Spring delivery", "Workshop hours", "Fittings", "Sample box", "Materials", "Monthly service", "Mixed glaze", "Loose leaf tea"},
	"aBrand":   {"visa", "visa", "visa", "visa", "mastercard", "mastercard", "amex", "discover"},
	"till":     {"counter-till"},
	"platform": {"system"},
	"author":   {"petra.umberquist", "jorvick.dapplewend", "silvarine.inkle", "billing-sync", "billing-sync"},
	"digit":    {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
}
