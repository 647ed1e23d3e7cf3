package main

// rows is the programme. The name of a figure is what the test logs.
var rows = []row{
	{
		id: "R1", promise: "kill -9 loses nothing that was acknowledged",
		note: "Clients issue, rotate, redeem, revoke, record, change and import until the server is killed at a random moment. A ledger outside it then checks that everything acknowledged exists, that spent codes and tokens are refused (some 550 of them after each kill), that the log has no hole, and that resources equal their events.",
		parts: []part{
			{
				name: "kills of a server on a directory", test: []string{"-run", "TestKillLedger$/on_a_directory", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 1000"},
					{"acknowledged", "acknowledged changes", sum, "≥ 5000000"},
					{"clients", "concurrent writers", least, "≥ 32"},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
					{"replayed", "spent codes and tokens tried again", sum, ""},
					{"reopened_median_ms", "restart, median, ms", most, ""},
					{"reopened_worst_ms", "restart, slowest, ms", most, "≤ 1000"},
				},
			},
			{
				name: "kills of two servers on PostgreSQL", test: []string{"-run", "TestKillLedger$/on_a_database", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 1000"},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
					{"reopened_worst_ms", "restart, slowest, ms", most, ""},
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
				name: "kills under webhooks, on a directory and on PostgreSQL", test: []string{"-run", "TestWebhookLedger", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 40"},
					{"acknowledged", "acknowledged events", sum, ""},
					{"lost", "never arrived", sum, "= 0"},
					{"repeated_most", "sent again after a kill, at most", most, "≤ 100"},
				},
			},
			{
				name: "kills under readers of the events, on a directory and on PostgreSQL", test: []string{"-run", "TestLiveThroughKills", "./cli/proof"},
				figures: []figure{
					{"kills", "kills", sum, "≥ 100"},
					{"missed", "events that a reader missed", sum, "= 0"},
					{"repeated", "events repeated, changed or out of order", sum, "= 0"},
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
					{"gap_worst_s", "from the kill until both processes write again, slowest, s", most, "≤ 60"},
				},
			},
		},
	},
	{
		id: "R2", promise: "a power cut loses nothing that was acknowledged",
		note: "The same ledger, on a file system in a loop device. At a random moment all writes stop, those of the file system's journal included; the server is killed and the file system is mounted again. What was handed to the device survives, flushed or not: the cache of a drive is not tested. Most of these runs shared the processors, so the time of a restart has a goal only in R1.",
		parts: []part{
			{
				name: "power cuts on ext4", test: []string{"-run", "TestPowerCutLedger$/on_ext4", "./cli/proof"},
				figures: []figure{
					{"power_cuts", "power cuts", sum, "≥ 500"},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
					{"reopened_worst_ms", "restart, slowest, ms", most, ""},
				},
			},
			{
				name: "power cuts on xfs", test: []string{"-run", "TestPowerCutLedger$/on_xfs", "./cli/proof"},
				figures: []figure{
					{"power_cuts", "power cuts", sum, "≥ 500"},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"double_accepted", "accepted twice", sum, "= 0"},
					{"reopened_worst_ms", "restart, slowest, ms", most, ""},
				},
			},
		},
	},
	{
		id: "R3", promise: "the proofs can fail",
		note: "The ledger of R1 must find what a build loses that answers 50 ms before it commits; while that was 5 ms it noticed 10 of 21 kills. The build that does not sync refuses to open after a power cut, because its commit stamp is newer than its data; without the stamp it opens, and acknowledged resources are missing. The checkers of R4, R7, R10 and R14 must reject faulty input.",
		parts: []part{
			{
				name: "kills of a build that answers before it commits", test: []string{"-run", "TestKillLedgerNoticesALoss", "./cli/proof"}, whole: true,
				figures: []figure{
					{"control_cycles", "kills", latest, "≥ 20"},
					{"control_lost", "kills whose losses were noticed", latest, "≥ 20"},
				},
			},
			{
				name: "checkers and faulty input", whole: true,
				test:    []string{"-run", "TestParallelHistoriesCanFail$|TestSimulationCanFail$|TestFlippedBitsCanFail$|TestSnapshotsUnderLoad$", "./store", "./cli", "./store/kv/badgerkv"},
				figures: []figure{{"tests", "of four checkers, those that reject it", latest, "= 4"}},
			},
			{
				name: "power cuts of a build that does not sync", test: []string{"-run", "TestPowerCutCanLose", "./cli/proof"}, whole: true,
				figures: []figure{
					{"control_cuts", "power cuts", sum, "≥ 1"},
					{"control_lost", "commits that the stamp showed to be lost", sum, "≥ 1"},
					{"control_missing", "acknowledged resources missing when the stamp is removed", sum, "≥ 1"},
				},
			},
		},
	},
	{
		id: "R4", promise: "codes, rotation and revocation are linearizable, through restarts and crashes",
		note: "64 callers, honest or not, use codes and tokens while the clock steps and the store is closed, or left as a kill would leave its files and opened again. A checker looks for an order of the calls of each authorization that explains every answer.",
		parts: []part{
			{
				name: "histories on a directory", test: []string{"-run", "TestParallelHistories$", "./store"},
				figures: []figure{
					{"operations", "operations", sum, "≥ 1000000"},
					{"not_linearizable", "authorizations that are not linearizable", sum, "= 0"},
					{"slowest_check_ms", "slowest check, ms", most, "≤ 5000"},
				},
			},
			{
				name: "histories on PostgreSQL, in two processes", test: []string{"-run", "TestParallelHistories$", "./store"}, env: []string{"TOLLHOUSE_TEST_ENGINE=postgres"},
				figures: []figure{
					{"operations", "operations", sum, "≥ 100000"},
					{"not_linearizable", "authorizations that are not linearizable", sum, "= 0"},
				},
			},
		},
	},
	{
		id: "R5", promise: "a failed call to the disk loses nothing, even if it ends the server",
		note: "One call that syncs a file fails: the Nth of each thread, for N = 1, 2 and so on. The kernel may then have dropped the dirty pages, so a retry could succeed without writing them. The server acknowledges nothing more, exits with 74, and starts again with everything acknowledged. When a file cannot be opened or truncated for want of space, it continues or ends, and starts again too.",
		parts: []part{
			{
				name: "failed syncs", test: []string{"-run", "TestFailedSync$", "./cli/proof"},
				figures: []figure{
					{"failed_syncs", "highest N for which the Nth sync failed", most, "≥ 200"},
					{"at_the_start", "syncs that failed at the start, in all runs", sum, ""},
					{"not_reached", "syncs that were never made, in all runs", sum, ""},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
					{"ended_worst_ms", "from the first refusal to the end, slowest, ms", most, "≤ 1000"},
				},
			},
			{
				name: "files that cannot be opened or truncated", test: []string{"-run", "TestFailedFiles$", "./cli/proof"},
				figures: []figure{
					{"failed_opens", "starts in which an open failed", sum, "≥ 200"},
					{"failed_truncates", "starts in which a truncate failed", sum, "≥ 200"},
					{"at_the_start", "of both, starts that ended before they were ready", sum, ""},
					{"acknowledged", "acknowledged changes", sum, ""},
					{"lost", "lost", sum, "= 0"},
				},
			},
		},
	},
	{
		id: "R6", promise: "a disk that runs out of space costs a clear refusal",
		note: "A small tmpfs is filled until 64 to 160 MiB are left, under the same writers and importers, and under backups to it; in every second round the server is killed. No round takes the last byte: that can end the server ([operations.md](../operations.md)). Reads work, changes get 503 with Retry-After, and a start exits and says how much space it needs.",
		parts: []part{
			{
				name: "a full disk under the server", test: []string{"-run", "TestFullDisk$", "./cli/proof"},
				figures: []figure{
					{"times_full", "times that changes were refused for want of space", sum, "≥ 20"},
					{"kills", "kills", sum, ""},
					{"refused", "changes refused", sum, ""},
					{"wrong_answers", "answers other than 503 with Retry-After at that moment", sum, "= 0"},
					{"read_p99_times_before", "p99 of reads, times that before", most, "≤ 2"},
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
		id: "R7", promise: "damage is refused, or found by the next check",
		note: "One bit at a time, in each kind of file of a killed server's directory and in a backup. Every record is read, then the tables are checked, as a server does after its start and every day. A damaged value is refused when it is read; a flip in a key can make a read miss a record, or return another value of it, until that check. `doctor --deep` must exit with 1 for each flip in a store that is not harmless.",
		parts: []part{{
			name: "flips", test: []string{"-run", "TestFlippedBits$", "./cli"},
			figures: []figure{
				{"flips", "flips", sum, "≥ 1000"},
				{"refused", "refused at the start", sum, ""},
				{"named", "found when read or checked", sum, ""},
				{"late", "found when checked, after a read had missed a record or returned another value", latest, ""},
				{"harmless", "harmless: all records are unchanged", sum, ""},
				{"silent", "not found", sum, "= 0"},
			},
		}},
	},
	{
		id: "R8", promise: "lifetimes end by the clock",
		parts: []part{{
			name: "lifetimes under a clock that the test sets", test: []string{"-run", "TestRedeemCode$|TestRotateRefresh|TestSession$|TestUserCode$|TestTokenCodeOverTime$|TestBearerExpiry$|TestConsentOverTime$|TestRememberedConsent$|TestDeviceCookies$|TestDevClockDecidesLifetimes$|TestThrottle|TestEndedSecretsSignNothing$|TestRetention$", "./store", "./store/eventlog", "./handlers/...", "./cli/webhooks"}, whole: true,
			figures: []figure{{"passed", "tests that passed, subtests included", latest, "≥ 1"}},
		}},
	},
	{
		id: "R9", promise: "no input crashes a parser",
		note: "All targets take turns. Each has had some four minutes, in slices.",
		parts: []part{{
			name: "fuzzing", fuzz: true,
			figures: []figure{
				{"targets", "targets", latest, "≥ 10"},
				{"executions", "executions", sum, "≥ 100000000"},
			},
		}},
	},
	{
		id: "R10", promise: "the store does what a plain model does, whatever fails",
		note: "One seed decides everything: the operations, the commits that fail with a known or unknown outcome, the crashes and the steps of the clock. One seed in 60 runs on disk, with 60 operations, the others in memory. `go test ./store -run TestSimulation -seed N` replays a seed.",
		parts: []part{{
			name: "simulation", test: []string{"-run", "TestSimulation$", "./store"},
			figures: []figure{
				{"seeds", "seeds, of up to 500 operations", sum, "≥ 10000"},
				{"operations", "operations", sum, ""},
				{"injected", "commits that failed, or whose answer was lost", sum, ""},
				{"crashes", "crashes", sum, ""},
				{"clock_steps", "steps of the clock", sum, ""},
				{"diverged", "seeds that diverged", sum, "= 0"},
			},
		}},
	},
	{
		id: "R11", promise: "overload costs a wait, a refusal or a closed connection, and only while it lasts",
		note: `320 clients, ten times as many as keep the server busy, each send the next request as soon as they have an answer. Then 2,500 come; with 256 MiB the server has fewer connections, and closes the longest idle ones for new ones. The peak is the best of 32, 64 and 128
clients. A burst of 256 comes first. While changes have waited too long for half a second, a change of a program is refused if more than 256 are in flight, and more than are stored in 15 ms or two commits. "Back to normal" is a round of requests in at most five times its usual time. The clients run on the same cores as the server, and so does PostgreSQL.`,
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
		note: "The server drops about a thousand slow connections at the same deadlines, and most come back with a new TLS handshake. A control sends the same slow clients to another server on this machine; a figure compares with that.",
		parts: []part{{
			name: "slow headers, bodies, readers and streams", test: []string{"-run", "TestSlowClientsServer$", "./cli/proof"}, whole: true,
			figures: []figure{
				{"slow_readers", "slow readers", latest, ""},
				{"open_transactions", "store transactions that they keep open", most, "= 0"},
				{"probe_p99_times_before", "p99 of honest requests, times that without slow clients", most, "≤ 2"},
				{"probe_p99_times_elsewhere", "the same, against slow clients of another server", most, "≤ 2"},
				{"probe_p99_ms", "p99 of honest requests, ms", most, ""},
				{"late_ms", "closed after its deadline, at most, ms", most, ""},
			},
			why: map[string]string{
				"probe_p99_times_before": "The slow clients share the two cores: while they visit another server there, it was 1.7 and 2.1 already.",
			},
		}},
	},
	{
		id: "R13", promise: "a long run leaks nothing",
		note: "Tokens, events, imports, pages, streams, long polls, webhooks, screens and backups, by clients that pause as long as they work. The data grows by some 300 MB an hour. Until 2026-11-25 the heap at rest was sampled once, 130 seconds after the last request, and since then it is the lowest sample of 260 seconds. Merges into the last level raise it to over 300 MiB for half a minute at a time. The import of two million events ran beside the soak and other tests, so the time of its clients' requests says little. In the runs up to 2026-11-24 the limit on refreshes of a family refused a quarter of the requests after half an hour.",
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
				{"heap_at_rest_mib", "heap at rest, MiB", latest, ""},
				{"heap_restarted_mib", "the same of a server that starts with this data and works two minutes, MiB", latest, ""},
				{"heap_mib_per_hour", "heap under load, between backups, MiB an hour", most, "≤ 1"},
				{"rss_anon_mib", "anonymous memory, MiB", most, ""},
				{"disk_times_restored", "disk, times that of a restored copy", most, "≤ 2"},
			},
			why: map[string]string{
				"heap_at_rest_mib_per_hour": "The heap was sampled once before and once after; between two collections it grows by up to 40 %. In the run of 2026-11-28, which sampled it for 260 seconds and failed afterwards, it fell.",
			},
		}, {
			name: "an import of two million events into two million", test: []string{"-run", "TestMemoryOfALargeImport$", "./cli/proof"}, whole: true,
			figures: []figure{
				{"rss_anon_mib", "anonymous memory at `--memory 256MiB`, MiB", most, "≤ 384"},
				{"beside_clients_mib", "the same of a server that 16 clients keep busy, MiB", most, "≤ 384"},
				{"beside_clients_p99_ms", "p99 of these clients' requests, ms", most, ""},
				{"into_empty_mib", "of the two million before, MiB", most, ""},
			},
		}},
	},
	{
		id: "R14", promise: "a backup is one state of the store, or refused",
		note: "The first part reads snapshots of the engine, as a backup does, and compares them with what the writers did. [performance.md](performance.md#store) says what a backup costs the writers.",
		parts: []part{
			{
				name: "snapshots under writers", test: []string{"-run", "TestSnapshotsUnderLoad$", "./store/kv/badgerkv"},
				figures: []figure{{"backups", "snapshots", sum, "≥ 50"}, {"torn", "torn", sum, "= 0"}},
			},
			{
				name: "a backup cut short", test: []string{"-run", "TestBackup$", "./store"}, whole: true,
				figures: []figure{{"truncations", "lengths at which one backup was cut", sum, ""}, {"accepted", "accepted", sum, "= 0"}},
			},
			{
				name: "backups beside a server, restored", test: []string{"-run", "TestBackupBesideServer$|TestLoadKeepsExpiry$", "./cli", "./store/kv/badgerkv"}, whole: true,
				figures: []figure{{"tests", "of two tests, those that passed", latest, "= 2"}},
			},
		},
	},
	{
		id: "R15", promise: "format 1 is read, and any other is refused by its number",
		note: "Format 1 is the first that a release writes, so no store has been migrated yet. A backup that was made when the format was settled is read, and checked record by record.",
		parts: []part{{
			name: "formats", test: []string{"-run", "TestFormat1$|TestAnotherFormat$", "./store"}, whole: true,
			figures: []figure{{"tests", "of two tests, those that passed", latest, "= 2"}},
		}},
	},
	{
		id: "R16", promise: "every attack of the catalogue fails",
		note: "[conformance.md](conformance.md#attacks-each-tried) lists the attacks and the tests that try them, most of them against the HTTP server in the process of the test, the others against the built program.",
		parts: []part{{
			name: "attacks", section: "Attacks, each tried", whole: true,
			figures: []figure{
				{"attacks", "attacks on the list, in rows whose tests all ran and passed", latest, "≥ 97"},
				{"passed", "tests that passed, subtests included", latest, ""},
			},
		}},
	},
	{
		id: "R17", promise: "the time of an answer does not say whether something exists",
		note: "Two requests alternate on one connection: one for something unknown, one for something that belongs to another account. The slowest twentieth of each is left out, so that other activity on the machine does not mask a difference. Tokens are left out, because nobody can guess one.",
		parts: []part{{
			name: "lookalikes over a connection", test: []string{"-run", "TestTimesOverAConnection$", "./handlers/..."}, whole: true,
			figures: []figure{
				{"comparisons", "comparisons", latest, ""},
				{"not_compared", "comparisons for which there was no time", latest, "= 0"},
				{"samples_of_each", "samples of each", least, "≥ 2000"},
				{"median_difference_percent", "largest difference of the medians, %", most, "≤ 5"},
				{"again_percent", "of those above 5 %, the largest median of three comparisons, %", most, "≤ 5"},
				{"welch_t", "largest Welch's t", most, "≤ 4.5"},
			},
			why: map[string]string{
				"welch_t": "In three more runs this was an expired code against an unknown one: medians 3 to 4 % apart, t 6 to 8, all others below 4. Only somebody with the code can ask, and nobody can guess one.",
			},
		}},
	},
	{
		id: "R18", promise: "a test fails for each of a random selection of removed rules",
		note: "Each mutant is the program without one rule, such as the comparison of a secret or the revocation after a replay. `bench/mutants` has some 85, of the rules that guard secrets, tokens, events and their order; a run draws an eighth of them at random. Many others were run when they were written, without a record here.",
		parts: []part{{
			name: "mutants", argv: []string{"go", "run", "./mutants", "-part", "any/8"}, dir: "bench", whole: true,
			figures: []figure{{"mutants", "mutants run; runs may repeat some", sum, "≥ 12"}, {"survived", "survived", sum, "= 0"}},
		}},
	},
	{
		id: "R19", promise: "tests cover the stores, and the handlers of OAuth",
		note: "The packages store, eventlog, record, secret and webhook, and the files of OAuth in handlers. `.ci/run` runs all tests but those of the built binary under the race detector.",
		parts: []part{{
			name: "coverage", argv: []string{"sh", "bench/long/coverage.sh"}, whole: true,
			figures: []figure{{"coverage_percent", "statements covered, of the package with the least, %", least, "≥ 95"}},
		}},
	},
	{
		id: "R20", promise: "the build is what its sources say",
		note: "govulncheck was not run: its database could not be reached.",
		parts: []part{
			{
				name: "modules", argv: []string{"go", "mod", "verify"},
				figures: []figure{{"runs", "go mod verify passed (1)", latest, "= 1"}},
			},
			{
				name: "direct dependencies", test: []string{"-run", "TestDirectModules$", "./cli"}, whole: true,
				figures: []figure{{"direct_modules", "direct dependencies, all on the list of those chosen", latest, "≥ 1"}},
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
		{"control_percent", "a minute with the clients of the peak, of the peak, %", least, ""},
		{"goodput_per_cpu_percent", "goodput by the server's CPU time, of the peak, %", least, ""},
		{"refused", "refused with 429 or 503", sum, ""},
		{"refused_of_burst", "refused of a burst of 256 changes", sum, "= 0"},
		{"refused_p99_ms", "p99 of refusals at ten times saturation, 0 without any, ms", most, "≤ 50"},
		{"refused_beyond_limits_p99_ms", "p99 of refusals while there were 2,500 clients, ms", most, ""},
		{"cut_beyond_limits", "connections cut while there were 2,500 clients", sum, ""},
		{"wrong_answers", "other answers", sum, "= 0"},
		{"p99_times_peak", "p99 of accepted requests, times that of the peak", most, "≤ 5"},
		{"rss_anon_mib", memory, most, bound},
		{"recovered_ms", "back to normal after the load, ms", most, "≤ 2000"},
		{"generator_cpu_percent", "the clients' share of CPU time, %", latest, ""},
	}
}
