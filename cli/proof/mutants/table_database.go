package main

// What the store on PostgreSQL rests on.
var databaseMutants = []mutant{
	{
		name: "database_no_turn", breaks: "processes commit one after another",
		file: "store/kv/pgkv/committer.go", old: "select 1 from tollhouse.turn where id = 1 for update", new: "select 1 from tollhouse.turn where id = 1",
		in: "./store/kv/pgkv", tests: []string{"TestConformanceOfTwoProcesses"},
	},
	{
		name: "database_asking_run_counts", breaks: "an update reads what is stored in its turn, not what the asking run read",
		file: "store/kv/pgkv/committer.go", old: "	c.db.counts.turnWait.Store(",
		new: "	for key := range c.known {\n		c.db.memory.find([][]byte{[]byte(key)}, func(key, sealed []byte) { c.known[string(key)] = sealed })\n	}\n	c.db.counts.turnWait.Store(",
		in:  "./store/kv/pgkv", tests: []string{"TestConformanceOfTwoProcesses"},
	},
	{
		name: "database_mark_unread", breaks: "a commit without an answer counts only if its mark is there",
		file: "store/kv/pgkv/committer.go", old: "	case seq != c.seq:\n", new: "	case seq > c.seq:\n",
		in: "./store/kv/pgkv", tests: []string{"TestACommitWithoutAnAnswer", "TestEveryOutcomeIsTrueWhileConnectionsAreCut"},
	},
	{
		name: "database_commit_made_again", breaks: "a commit without an answer is not made again if its mark is there",
		file: "store/kv/pgkv/committer.go", old: "	case seq != c.seq:\n", new: "	case seq <= c.seq:\n",
		in: "./store/kv/pgkv", tests: []string{"TestACommitWithoutAnAnswer", "TestEveryOutcomeIsTrueWhileConnectionsAreCut"},
	},
	{
		name: "database_warning_is_an_answer", breaks: "a commit with a warning is as one without an answer",
		file: "store/kv/pgkv/committer.go", old: "	if c.c.noticed {\n", new: "	if false {\n",
		in: "./store/kv/pgkv", tests: []string{"TestCommitErrors"},
	},
	{
		name: "database_generation_unread", breaks: "every group checks that the database is the one that was opened",
		file: "store/kv/pgkv/committer.go", old: "	return c.db.same(found)\n}\n\n// asked", new: "	return nil\n}\n\n// asked",
		in: "./store/kv/pgkv", tests: []string{"TestAnotherStoreIsNoticed"},
	},
	{
		name: "database_view_has_no_snapshot", breaks: "a view reads one snapshot",
		file: "store/kv/pgkv/view.go", old: "begin isolation level repeatable read read only", new: "begin isolation level read committed read only",
		in: "./store/kv/pgkv", tests: []string{"TestConformance", "TestConformanceOfTwoProcesses"},
	},
	{
		name: "database_plans_of_an_empty_table", breaks: "plans that were made while the table was small use its indexes",
		file: "store/kv/pgkv/conn.go", old: "		set plan_cache_mode = force_generic_plan;\n", new: "",
		in: "./store/kv/pgkv", tests: []string{"TestPlansUseIndexes"},
	},
}
