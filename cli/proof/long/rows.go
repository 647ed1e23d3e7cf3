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
				figures: []figure{
					{"operations", "operations", sum, "≥ 1000000"},
					{"callers", "callers at once", least, "≥ 64"},
					{"not_linearizable", "authorizations that are not linearizable", sum, "= 0"},
					{"slowest_check_ms", "slowest check, ms", most, "≤ 5000"},
				},
			},
			{
				name: "histories on PostgreSQL, in two processes", test: []string{"-run", "TestParallelHistories$", "./store"}, env: []string{"TOLLHOUSE_TEST_ENGINE=postgres"},
				figures: []figure{{"operations", "operations", sum, "≥ 100000"}},
			},
		},
	},
	{
		id: "R7", promise: "a flipped bit is refused, named or harmless",
		note: "One bit at a time of every kind of file of a killed server's directory, and of a backup. A flip is harmless when every record is as it was. doctor --deep exits with 1 for all others.",
		parts: []part{{
			name: "flips", test: []string{"-run", "TestFlippedBits$", "./cli"},
			figures: []figure{
				{"flips", "flips", sum, "≥ 1000"},
				{"refused", "refused at open", sum, ""},
				{"named", "named when read", sum, ""},
				{"harmless", "harmless", sum, ""},
				{"silent", "silent", sum, "= 0"},
			},
		}},
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
		id: "R10", promise: "a simulated store does what its model does",
		note: "A seed decides 500 operations, tokens and ids, failed commits, lost answers, crashes and steps of the clock. Each outcome must be the model's, and at intervals everything in the store.",
		parts: []part{{
			name: "simulation", test: []string{"-run", "TestSimulation$", "./store"},
			figures: []figure{
				{"seeds", "seeds", sum, "≥ 10000"},
				{"operations", "operations", sum, ""},
				{"injected", "commits that failed or whose answer was lost", sum, ""},
				{"crashes", "crashes", sum, ""},
				{"clock_steps", "steps of the clock", sum, ""},
				{"diverged", "outcomes that were not the model's", sum, "= 0"},
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
