package main

// rows is the programme. A name of a figure is one that the test logs.
var rows = []row{
	{
		id: "R1", promise: "kill -9 loses nothing that was acknowledged",
		note: "Clients issue, rotate, redeem, revoke, record, change and import until the server is killed at a random moment. A ledger outside it compares what is there after each start with what was acknowledged, in both " +
			"directions: what was acknowledged exists, and what was spent is refused.",
		parts: []part{
			{
				name: "kills of a server on a directory", test: []string{"-run", "TestKillLedger/on_a_directory", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 1000"},
					{"acknowledged", "acknowledged changes", sum, "≥ 5000000"},
					{"clients", "clients at once", least, "≥ 32"},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
					{"replayed", "spent codes and tokens tried again", sum, ""},
					{"reopened_median_ms", "to open again, median, ms", most, ""},
					{"reopened_worst_ms", "to open again, slowest, ms", most, "≤ 1000"},
				},
			},
			{
				name: "kills of two servers on PostgreSQL", test: []string{"-run", "TestKillLedger/on_a_database", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 1000"},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
				},
			},
		},
	},
}
