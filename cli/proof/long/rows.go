package main

// rows is the programme. The name of a figure is what the test logs.
var rows = []row{
	{
		id: "R1", promise: "kill -9 loses nothing that was acknowledged",
		note: `Clients issue, rotate, redeem, revoke, record, change and import until the server is killed at a random moment. A ledger outside it then compares what is there with what was acknowledged: all of that exists, what
was spent is refused, the log has no hole, and resources equal their events.`,
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
			{
				name: "kills of PostgreSQL under sixteen writers", test: []string{"-run", "TestTheDatabaseIsKilled", "./store/kv/pgkv"},
				figures: []figure{
					{"postmaster_kills", "kills", sum, "≥ 500"},
					{"acknowledged", "acknowledged writes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"slowest_answer_ms", "slowest answer, refusals included, ms", most, "≤ 6000"},
				},
			},
			{
				name: "kills of the leader of a Patroni cluster of three", test: []string{"-run", "TestFailover", "./store/kv/pgkv"},
				figures: []figure{
					{"failovers", "leaders killed", sum, "≥ 20"},
					{"acknowledged", "acknowledged writes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"gap_worst_s", "longest time without a leader, s", most, "≤ 60"},
				},
			},
		},
	},
	{
		id: "R4", promise: "codes, rotation and revocation are linearizable, through restarts and crashes",
		note: "64 callers, honest or not, use codes and tokens while the clock steps and the store is closed and killed. A checker finds for each authorization an order of its calls that explains every answer.",
		parts: []part{
			{
				name: "histories on a directory", test: []string{"-run", "TestParallelHistories$", "./store"},
				figures: []figure{{"operations", "operations", sum, "≥ 1000000"}},
			},
			{
				name: "histories on PostgreSQL, in two processes", test: []string{"-run", "TestParallelHistories$", "./store"}, env: []string{"TOLLHOUSE_TEST_ENGINE=postgres"},
				figures: []figure{{"operations", "operations", sum, "≥ 100000"}},
			},
		},
	},
	{
		id: "R9", promise: "no input crashes a parser",
		parts: []part{{
			name: "fuzzing", fuzz: true,
			figures: []figure{
				{"targets", "targets, a run each", latest, "≥ 10"},
				{"executions", "executions", sum, "≥ 100000000"},
			},
		}},
	},
	{
		id: "R18", promise: "a test fails for every rule that is removed",
		parts: []part{{
			name: "mutants", argv: []string{"go", "run", "."}, dir: "cli/proof/mutants", whole: true,
			figures: []figure{{"mutants", "mutants", latest, "≥ 12"}, {"survived", "survived", latest, "= 0"}},
		}},
	},
	{
		id: "R20", promise: "the build is what its sources say",
		parts: []part{
			{
				name: "modules", argv: []string{"go", "mod", "verify"},
				figures: []figure{{"runs", "go mod verify", latest, "= 1"}},
			},
			{
				name: "the same binary from two clones", test: []string{"-run", "TestRelease", "./cli/proof"},
				figures: []figure{{"differing_builds", "builds that differ", sum, "= 0"}},
			},
		},
	},
}
