package main

// What the counts of events and requests rest on.
var countMutants = []mutant{
	{
		name: "counts_removal_unmarked", breaks: "a removal marks the hours that it touches as dirty",
		file: "store/eventlog/remove.go", old: "	rm.dirty.add(p)\n", new: "",
		in: "./store/eventlog", tests: []string{"TestCountsEqualTheLog"},
	},
	{
		name: "counts_history_unmarked", breaks: "an import below the head marks the hours that it touches as dirty",
		file: "store/eventlog/import_writer.go", old: "		w.dirty.add(l.position)\n", new: "",
		in: "./store/eventlog", tests: []string{"TestCountsEqualTheLog"},
	},
	{
		name: "counts_mark_raised_again", breaks: "a pass takes away only a mark that it has seen",
		file: "store/eventlog/rollup_pass.go", old: "raised != seen", new: "raised < seen",
		in: "./store/eventlog", tests: []string{"TestCountsEqualTheLog"},
	},
	{
		name: "counts_of_deleted_account", breaks: "the counts of an account are removed with it, also from those of all",
		file: "store/account.go", old: "		err = s.Log.DropCounts(ctx, id, still)\n", new: "",
		in: "./store/eventlog", tests: []string{"TestCountsEqualTheLog", "TestRollup"},
	},
	{
		name: "counts_of_unwritten_hour", breaks: "a failed write of the ring is repeated",
		file: "store/stats/ring.go", old: "				r.putBack(taken)\n", new: "",
		in: "./store/stats", tests: []string{"TestRing"},
	},
	{
		name: "counts_of_another_server", breaks: "servers on one database count together",
		file: "store/stats/ring.go", old: "		k.slots[slot] = k.slots[slot].plus(slots[slot])\n", new: "		k.slots[slot] = slots[slot]\n",
		in: "./store/stats", tests: []string{"TestServersCountTogether"},
	},
	{
		name: "first_use_in_memory", breaks: "a pair used at one server is not replaced at another",
		file: "store/access.go", old: "if s.isShared && !u.confirms.IsZero() {", new: "if false && s.isShared {",
		in: "./store", tests: []string{"TestRefreshAtTwoServers", "TestFirstUseIsStoredBeforeItsAnswer"},
	},
	{
		name: "lost_note", breaks: "a reader wakes although the note of another server is lost",
		file: "store/eventlog/watch_others.go", old: "		_ = l.poll(ctx, regular)", new: "		_ = regular",
		in: "./store/eventlog", tests: []string{"TestBackfillOfAnotherServer"},
	},
}
