package main

// rows is the programme. The name of a figure is what the test logs.
var rows = []row{
	{
		id: "R1", promise: "kill -9 loses nothing that was acknowledged",
		note: `Clients issue, rotate, redeem, revoke, record, change and import until the server is killed at a random moment. A ledger outside it then compares what is there with what was acknowledged: all of that exists, what
was spent is refused, the log has no hole, and resources equal their events.`,
		parts: []part{
			{
				name: "kills of a server on a directory", test: []string{"-run", "TestKillLedger$/on_a_directory", "./cli/proof"},
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
				name: "kills of two servers on PostgreSQL", test: []string{"-run", "TestKillLedger$/on_a_database", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 1000"},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
				},
			},
			{
				name: "kills of PostgreSQL under two servers", test: []string{"-run", "TestTheDatabaseIsKilledUnderTwoServers", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 100"},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
				},
			},
			{
				name: "kills under webhooks", test: []string{"-run", "TestWebhookLedger", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 40"},
					{"acknowledged", "acknowledged events", sum, ""},
					{"lost", "never sent", sum, "= 0"},
					{"repeated_most", "sent again after a kill, at most", most, "≤ 100"},
				},
			},
			{
				name: "kills under readers of the events", test: []string{"-run", "TestLiveThroughKills", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 100"},
					{"missed", "events that a reader missed", sum, "= 0"},
					{"repeated", "events that a reader saw twice", sum, "= 0"},
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
		id: "R2", promise: "a power cut loses nothing that was acknowledged",
		note: "The same ledger on a file system in a file. At a random moment nothing more reaches the disk, the log of the file system included; the server is killed, and what is left is mounted again. Most of these runs shared two cores with other proofs, so the time to open again has no goal here; R1 has it.",
		parts: []part{
			{
				name: "power cuts on ext4", test: []string{"-run", "TestPowerCutLedger$/on_ext4", "./cli/proof"},
				figures: []figure{
					{"power_cuts", "power cuts", sum, "≥ 500"},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
					{"reopened_worst_ms", "to open again, slowest, ms", most, ""},
				},
			},
			{
				name: "power cuts on xfs", test: []string{"-run", "TestPowerCutLedger$/on_xfs", "./cli/proof"},
				figures: []figure{
					{"power_cuts", "power cuts", sum, "≥ 500"},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
					{"reopened_worst_ms", "to open again, slowest, ms", most, ""},
				},
			},
		},
	},
	{
		id: "R3", promise: "the proofs can fail",
		note: "Weakened builds are found out: one by the ledger of R1, the other by its own stamp, which is ahead of what the cut has left. The checkers of R4, R7, R10 and R14 are given what is wrong, and have to say so.",
		parts: []part{
			{
				name: "kills of a build that answers before it commits", test: []string{"-run", "TestKillLedgerNoticesALoss", "./cli/proof"}, whole: true,
				figures: []figure{
					{"control_cycles", "kills", latest, "≥ 20"},
					{"control_lost", "of them found out", latest, "≥ 20"},
				},
			},
			{
				name: "checkers of what is wrong", whole: true,
				test:    []string{"-run", "TestParallelHistoriesCanFail$|TestSimulationCanFail$|TestFlippedBitsCanFail$|TestSnapshotsUnderLoad$", "./store", "./cli", "./store/kv/badgerkv"},
				figures: []figure{{"passed", "tests that passed, subtests included", latest, "≥ 4"}},
			},
			{
				name: "power cuts of a build that does not sync", test: []string{"-run", "TestPowerCutCanLose", "./cli/proof"}, whole: true,
				figures: []figure{
					{"control_cuts", "power cuts", sum, "≥ 1"},
					{"control_lost", "commits found to be lost", sum, "≥ 1"},
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
					{"not_linearizable", "authorizations without such an order", sum, "= 0"},
					{"slowest_check_ms", "slowest check, ms", most, "≤ 5000"},
				},
			},
			{
				name: "histories on PostgreSQL, in two processes", test: []string{"-run", "TestParallelHistories$", "./store"}, env: []string{"TOLLHOUSE_TEST_ENGINE=postgres"},
				figures: []figure{
					{"operations", "operations", sum, "≥ 100000"},
					{"not_linearizable", "authorizations without such an order", sum, "= 0"},
				},
			},
		},
	},
	{
		id: "R5", promise: "a failed sync of the disk ends the server, and loses nothing",
		note: "One call that syncs a file fails, the first, the second and so on; after it the kernel may have dropped what it was to write, so to try again would prove nothing. The server acknowledges nothing more, ends with 74, and starts again.",
		parts: []part{{
			name: "failed syncs", test: []string{"-run", "TestFailedSync$", "./cli/proof"},
			figures: []figure{
				{"failed_syncs", "syncs made to fail, one after the other", most, "≥ 200"},
				{"at_the_start", "of them while it started, in all runs", sum, ""},
				{"not_reached", "of them that it never made, in all runs", sum, ""},
				{"acknowledged", "acknowledged changes", sum, ""},
				{"lost", "lost", sum, "= 0"},
				{"ended_worst_ms", "from the first refusal to the end, slowest, ms", most, "≤ 1000"},
			},
		}},
	},
	{
		id: "R6", promise: "a full disk costs a clear refusal, and nothing else",
		note: "A small tmpfs is filled under the same writers and importers, and under backups to it; every other time the server is killed then. Reads go on, changes get 503 with Retry-After, and a start is refused by name until there is room.",
		parts: []part{
			{
				name: "a full disk under the server", test: []string{"-run", "TestFullDisk$", "./cli/proof"},
				figures: []figure{
					{"times_full", "times that the disk was full", sum, "≥ 20"},
					{"kills", "kills of them", sum, ""},
					{"refused", "changes refused", sum, ""},
					{"wrong_answers", "answers to the filler other than 503 with Retry-After", sum, "= 0"},
					{"read_p99_times_before", "p99 of reads, against before", most, "≤ 2"},
					{"read_p99_ms", "p99 of reads, ms", most, ""},
					{"recovered_ms", "from room to the next change, ms", most, "≤ 2000"},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
				},
			},
			{
				name: "a full disk under merges and backups", test: []string{"-run", "TestFullDiskWhileMerging$|TestFullDisk$|TestBackupDisks$|TestSmallDisks$", "./store/kv/badgerkv", "./cli"}, whole: true,
				figures: []figure{{"passed", "tests that passed", latest, "≥ 1"}},
			},
		},
	},
	{
		id: "R7", promise: "no damaged byte is served as true",
		note: "One bit at a time of every kind of file of a killed server's directory, and of a backup. Every record is asked for, then the tables are checked, as a server does in the background: a flip in a key can hide a record until then. A flip is harmless when every record is as it was. `doctor --deep` exits with 1 for all others.",
		parts: []part{{
			name: "flips", test: []string{"-run", "TestFlippedBits$", "./cli"},
			figures: []figure{
				{"flips", "flips", sum, "≥ 1000"},
				{"refused", "refused at the start, by name", sum, ""},
				{"named", "named when read or checked", sum, ""},
				{"late", "named when checked, after a read had missed a record or found an earlier one", latest, ""},
				{"harmless", "harmless: everything reads as before", sum, ""},
				{"silent", "served as true, or lost, and not named", sum, "= 0"},
			},
		}},
	},
	{
		id: "R8", promise: "the clock decides every lifetime, and no test waits for it",
		parts: []part{{
			name: "lifetimes under a clock that is set", test: []string{"-run", "TestRedeemCode$|TestRotateRefresh|TestSession$|TestTokenCodeOverTime$|TestBearerExpiry$|TestDevClockDecidesLifetimes$|TestThrottle", "./store", "./handlers"}, whole: true,
			figures: []figure{{"passed", "tests that passed, subtests included", latest, "≥ 1"}},
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
		id: "R10", promise: "the store does what a plain model does, whatever fails",
		note: "One seed decides everything: the operations, the commits that fail with a known or unknown outcome, the crashes and the steps of the clock. `go test ./store -run TestSimulation -seed N` plays a seed again.",
		parts: []part{{
			name: "simulation", test: []string{"-run", "TestSimulation$", "./store"},
			figures: []figure{
				{"seeds", "seeds, of 500 operations at most", sum, "≥ 10000"},
				{"operations", "operations", sum, ""},
				{"injected", "commits made to fail", sum, ""},
				{"crashes", "crashes", sum, ""},
				{"clock_steps", "steps of the clock", sum, ""},
				{"diverged", "seeds that diverged", sum, "= 0"},
			},
		}},
	},
	{
		id: "R11", promise: "overload costs a wait or a clear refusal, and only while it lasts",
		note: `Ten times as many clients as keep the server busy (320) ask again as soon as they are answered. Then 2,500 come, more than the server has connections for: the longest idle ones are closed for new ones.
The peak is the best of 32, 64 and 128 clients. A change waits in a queue of 1,024 before one is refused, so that many clients wait longer than a few. "Back to normal" is a round of
requests in at most five times its usual time. The clients run on the same cores as the server, and so does PostgreSQL: the share of the clients in the CPU time is given.`,
		parts: []part{
			{
				name: "ten times saturation", test: []string{"-run", "TestOverload$", "./cli/proof"}, whole: true,
				figures: overloadFigures("anonymous memory at `--memory 256MiB`, MiB", "≤ 384"),
			},
			{
				name: "ten times saturation with more memory", test: []string{"-run", "TestOverloadWithMoreMemory$", "./cli/proof"}, whole: true,
				figures: overloadFigures("anonymous memory at `--memory 512MiB`, MiB", "≤ 768"),
			},
			{
				name: "ten times saturation on PostgreSQL", test: []string{"-run", "TestOverloadOnADatabase$", "./cli/proof"}, whole: true,
				figures: overloadFigures("anonymous memory of the server, MiB", "≤ 384"),
			},
		},
	},
	{
		id: "R12", promise: "slow clients do not delay others",
		note: "A thousand of them are hung up on at the same deadlines and come back with a TLS handshake each, on the same cores.",
		parts: []part{{
			name: "slow headers, bodies, readers and streams", test: []string{"-run", "TestSlowClientsServer$", "./cli/proof"}, whole: true,
			figures: []figure{
				{"slow_readers", "responses that are not read, or slowly", latest, ""},
				{"open_transactions", "transactions of the store that they keep open", most, "= 0"},
				{"probe_p99_times_before", "p99 of honest requests, against before", most, "≤ 2"},
				{"probe_p99_ms", "p99 of honest requests, ms", most, ""},
				{"late_ms", "closed after its deadline, at most, ms", most, ""},
			},
		}},
	},
	{
		id: "R13", promise: "a long run leaks nothing",
		note: "Tokens, events, imports, pages, streams, long polls, webhooks, screens and backups, by clients that pause as long as they work. After 100,000 refreshes a family is limited to one in ten seconds, so the load drops. A sample at rest is taken after 130 seconds without a client. In the two-hour run a heap profile showed that the growth was in the engine's table buffers: at most eight, and each keeps its largest size, which was 31 MiB and is now 15. The disk was 2.139 times the backup, which is packed tighter than a store; runs compare it with a restored copy now.",
		parts: []part{{
			name: "soak", test: []string{"-run", "TestSoak$", "./cli/proof"}, whole: true,
			figures: []figure{
				{"requests", "requests", sum, ""},
				{"expiries", "times that retention removed events", sum, "≥ 1"},
				{"server_cpu_percent_of_two", "CPU time of the server, % of two cores", latest, ""},
				{"goroutines_more", "goroutines more at rest", most, "≤ 5"},
				{"descriptors_more", "descriptors more at rest", most, "≤ 5"},
				{"goroutines_drift", "drift of goroutines under load", most, "≤ 5"},
				{"descriptors_drift", "drift of descriptors under load", most, "≤ 5"},
				{"heap_at_rest_mib_per_hour", "heap at rest, MiB an hour", most, "≤ 1"},
				{"heap_mib_per_hour", "heap under load, MiB an hour", most, "≤ 1"},
				{"rss_anon_mib", "anonymous memory, MiB", most, ""},
				{"disk_times_restored", "disk, against that of a restored copy", most, "≤ 2"},
			},
		}},
	},
	{
		id: "R14", promise: "a backup is one state of the store, or refused",
		note: "A restored record expires in the same second (`TestLoadKeepsExpiry`). What a backup costs the writers beside it is in [performance.md](performance.md#store).",
		parts: []part{
			{
				name: "backups under writers", test: []string{"-run", "TestSnapshotsUnderLoad$", "./store/kv/badgerkv"},
				figures: []figure{{"backups", "backups", sum, "≥ 50"}, {"torn", "torn", sum, "= 0"}},
			},
			{
				name: "backups cut short", test: []string{"-run", "TestBackup$", "./store"}, whole: true,
				figures: []figure{{"truncations", "files cut at every byte", sum, ""}, {"accepted", "accepted", sum, "= 0"}},
			},
		},
	},
	{
		id: "R15", promise: "the format that was settled is read, and any other is refused by name",
		note: "Format 1 is the first that a release writes, so no store has been migrated yet. A backup that was made when the format was settled is read, and checked record by record.",
		parts: []part{{
			name: "formats", test: []string{"-run", "TestFormat1$|TestAnotherFormat$", "./store"}, whole: true,
			figures: []figure{{"passed", "tests that passed, subtests included", latest, "≥ 1"}},
		}},
	},
	{
		id: "R16", promise: "every attack of the catalogue fails",
		note: "[docs/conformance.md](conformance.md#attacks-each-tried) lists the attacks and the tests that try them, most of them against the HTTP server in the process of the test, the others against the built program.",
		parts: []part{{
			name: "attacks", section: "Attacks, each tried", whole: true,
			figures: []figure{{"passed", "tests that passed, subtests included", latest, "≥ 97"}},
		}},
	},
	{
		id: "R17", promise: "the time of an answer does not say whether something exists",
		note: "Both requests are made in turn. The slowest twentieth of each is left out, so that what the machine does otherwise does not hide a difference. The run that made all comparisons shared the cores with a soak and with builds.",
		parts: []part{{
			name: "lookalikes over a connection", test: []string{"-run", "TestTimesOverAConnection$", "./handlers"}, whole: true,
			figures: []figure{
				{"comparisons", "kinds of request compared, something unknown with something foreign", latest, ""},
				{"not_compared", "kinds for which the time was too short", latest, "= 0"},
				{"samples_of_each", "samples of each", most, "≥ 2000"},
				{"median_difference_percent", "largest difference of two medians, %", most, "≤ 5"},
				{"welch_t", "largest t of Welch", most, "≤ 4.5"},
			},
		}},
	},
	{
		id: "R18", promise: "a test fails when a rule is removed",
		note: "Each mutant is the program without one rule, such as the comparison of a secret or the revocation after a replay. `cli/proof/mutants` has the table of all.",
		parts: []part{{
			name: "mutants", argv: []string{"go", "run", ".", "-part", "any/8"}, dir: "cli/proof/mutants", whole: true,
			figures: []figure{{"mutants", "mutants tried, an eighth of the table by chance in each run", sum, "≥ 12"}, {"survived", "survived", sum, "= 0"}},
		}},
	},
	{
		id: "R19", promise: "the code of tokens and events is reached by its tests",
		note: "The packages store, eventlog, record, secret and webhook, and the files of OAuth in handlers. `.ci/run` runs all tests but those of the built binary under the race detector.",
		parts: []part{{
			name: "coverage", argv: []string{"sh", "cli/proof/long/coverage.sh"}, whole: true,
			figures: []figure{{"coverage_percent", "statements, of the package with the least, %", least, "≥ 95"}},
		}},
	},
	{
		id: "R20", promise: "the build is what its sources say",
		note: "govulncheck has not been run: its database could not be reached.",
		parts: []part{
			{
				name: "modules", argv: []string{"go", "mod", "verify"},
				figures: []figure{{"runs", "go mod verify", latest, "= 1"}},
			},
			{
				name: "direct dependencies", test: []string{"-run", "TestDirectModules$", "./cli"}, whole: true,
				figures: []figure{{"direct_modules", "modules that go.mod names, each of them chosen", latest, "≥ 1"}},
			},
			{
				name: "the same binary from two clones", test: []string{"-run", "TestRelease", "./cli/proof"},
				figures: []figure{{"differing_builds", "builds that differ", sum, "= 0"}},
			},
		},
	},
}

func overloadFigures(memory string, bound goal) []figure {
	return []figure{
		{"goodput_percent", "goodput, of the peak, %", least, "≥ 90"},
		{"goodput_per_cpu_percent", "goodput for the CPU time that the server had, of the peak, %", least, ""},
		{"refused", "refused with 429 or 503", sum, ""},
		{"cut_beyond_limits", "connections closed while there were more than the server takes", sum, ""},
		{"wrong_answers", "other answers", sum, "= 0"},
		{"p99_times_peak", "p99 of what was accepted, against the peak's", most, "≤ 5"},
		{"rss_anon_mib", memory, most, bound},
		{"recovered_ms", "back to normal after the load, ms", most, "≤ 2000"},
		{"generator_cpu_percent", "share of the clients in the CPU time, %", latest, ""},
	}
}
