package history

// The words that names are made of. They were made up for this; nobody is
// called so.
var (
	firstNames = []string{
		"Ambrelle", "Brindor", "Calvessa", "Dorrimund", "Elvisande", "Fenwicka", "Gasparel", "Hollivar", "Ismerel", "Jorvanna",
		"Kestrine", "Lorimund", "Mirrabex", "Nolwenna", "Orlandine", "Pellimor", "Quenstan", "Rosmunder", "Silvarine", "Tobrick",
		"Ulverine", "Vandessa", "Wilmaret", "Xanderine", "Yorvick", "Zephrine",
	}
	nameStems = []string{
		"Bracken", "Candle", "Dapple", "Ember", "Fennel", "Gorse", "Hazel", "Inkle", "Juniper", "Kettle", "Lichen", "Marrow",
		"Nettle", "Otter", "Pebble", "Quill", "Russet", "Sedge", "Thistle", "Umber", "Vetch", "Wicker", "Yarrow",
	}
	nameEndings = []string{
		"bottle", "dabble", "fennick", "gander", "lantern", "morrow", "nimble", "quist", "rattle", "sparrow", "thimble", "wend", "winkle",
	}
	trades = []string{
		"Apiary", "Bakehouse", "Bindery", "Boatyard", "Cider Press", "Clockworks", "Cycle Works", "Dye House", "Glassworks", "Joinery",
		"Lamp Shop", "Letterpress", "Map Room", "Nursery", "Pottery", "Rope Walk", "Seed Store", "Tea Room", "Toy Chest", "Weavers",
	}
	streets      = []string{"Quarry Lane", "Mill Street", "Tannery Road", "Kiln Lane", "Cooper Yard", "Heron Row", "Lantern Hill", "Ropewalk", "Orchard Steps", "Weir Street"}
	cityEndings  = []string{" Falls", " Hollow", " Ferry", " Cross", "mere", "haven", "mouth"}
	states       = []string{"CO", "GA", "IL", "MA", "ME", "MN", "NC", "NY", "OH", "OR", "PA", "TX", "VT", "WA", "WI"}
	areaCodes    = []string{"207", "212", "303", "404", "503", "512", "585", "608", "614", "617", "704", "717", "763", "802", "814"}
	bankEndings  = []string{"Savings", "Trust", "Credit Union", "Mutual"}
	customerNote = []string{"Prefers to pay by bank transfer", "Deliver to the back door", "Closed on Mondays", "Wants one invoice a month", "Asks for paper copies"}
	goods        = []string{"Standing order", "Repairs", "Spring delivery", "Workshop hours", "Fittings", "Sample box", "Materials", "Monthly service", "Glaze, mixed", "Boards, kiln dried", "Paper, ten reams", "Loose leaf, 2 kg"}
)

// Who does things: people at the dashboard, programs, and the platform itself.
const (
	bySystem = "system"
	byTill   = "counter-till"
	bySync   = "billing-sync"
)

var byClerks = []string{"petra.umberquist", "jorvick.dapplewend", "silvarine.inkle"}
