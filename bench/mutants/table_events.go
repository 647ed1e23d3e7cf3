package main

// Events: whose they are, their order, and that none is lost or doubled.
var eventMutants = []mutant{
	{
		name: "owner_in_log_key", breaks: "another owner's event cannot be named and is in no list",
		under: "store/eventlog", old: "start[:segmentSize]...).Str(owner)", new: `start[:segmentSize]...).Str("")`,
		tests: []string{"TestListEventsKeepsOwnersApart", "FuzzKeysOfLog"},
	},
	{
		name: "owner_in_foreign_key", breaks: "a foreign id belongs to its owner only",
		under: "store/record", old: "NewKey(TagEventForeign).Str(owner)", new: `NewKey(TagEventForeign).Str("")`,
		in: "handlers", tests: []string{"TestFindEvent", "TestListEventsWithAnothersCursor", "TestListEventsKeepsKeysApart"},
	},
	{
		name: "owner_in_resource_key", breaks: "a resource belongs to its owner only",
		under: "store/record", old: "NewKey(TagResource).Str(owner)", new: `NewKey(TagResource).Str("")`,
		in: "handlers", tests: []string{"TestResourceLife", "TestResourceAnswers", "TestListResources"},
	},
	{
		name: "key_parts_end", breaks: "no text reaches into its neighbour's range",
		under: "store/record", old: "append(append(k, text...), 0)", new: "append(k, text...)",
		tests: []string{"FuzzKeysOfTexts"},
	},
	{
		name: "position_order", breaks: "positions only grow, whatever the clock does",
		under: "store/record", old: "stamp <= head", new: "false",
		in: "store/eventlog", tests: []string{"TestRecordEventKeepsOneOrder"},
	},
	{
		name: "feed_position", breaks: "an event that commits later has a later position in the feed",
		under: "store/eventlog", old: "return h.last.Next(l.now(), [8]byte{})", new: "return record.Position{}.Next(l.now(), [8]byte{})",
		tests: []string{"TestFeedPositionIsDrawnInTheUpdate", "TestFeedByModel"},
	},
	{
		name: "feed_of_an_erased_account", breaks: "an account that is erased and imported again is in the feed once",
		under: "store/eventlog", old: "x.origin != head.origin()", new: "false",
		tests: []string{"TestFeedOfRemovedAndImportedEvents"},
	},
	{
		name: "feed_in_the_order_of_the_log", breaks: "events of one account are in the feed in the order of its log",
		under: "store/eventlog", old: "slices.SortFunc(w.live, record.Position.Compare)", new: "slices.Reverse(w.live)",
		tests: []string{"TestFeedOfRemovedAndImportedEvents", "TestFeedByModel"},
	},
	{
		name: "feed_that_was_off", breaks: "a reader learns of the time in which the feed was off",
		under: "store/eventlog", old: "h.removed = h.last", new: "",
		tests: []string{"TestFeedIsTrimmed"},
	},
	{
		name: "feed_turned_on_elsewhere", breaks: "a server writes entries although another one turned the feed on",
		under: "store/eventlog", old: "l.feedOff.Load() && l.others.engine == nil", new: "l.feedOff.Load()",
		tests: []string{"TestFeedByModel"},
	},
	{
		name: "segment_within_a_millisecond", breaks: "a position belongs to exactly one segment of the log",
		under: "store/eventlog", old: " && p.Millis() > h.last.Millis()", new: "",
		tests: []string{"TestASegmentBegins"},
	},
	{
		name: "segments_out_of_order", breaks: "pages continue across segments in the requested order",
		under: "store/eventlog", old: "i = last - n", new: "i = first + n",
		tests: []string{"TestSegments"},
	},
	{
		name: "events_go_before_their_copies", breaks: "an erasure removes every copy of an event",
		under: "store", old: "[]byte{eventlog.ListByType, eventlog.ListByResource, eventlog.ListAll}", new: "[]byte{eventlog.ListAll, eventlog.ListByType, eventlog.ListByResource}",
		in: "store/eventlog", tests: []string{"TestDeletionBesideRetention"},
	},
	{
		name: "account_made_since", breaks: "a deletion erases no account made since",
		under: "store", old: "!a.erasedSince.Equal(since)", new: "!a.erasedSince.Equal(a.erasedSince)",
		tests: []string{"TestADeletionLeavesTheNextAccountOfThatIDAlone"},
	},
	{
		name: "import_doubled", breaks: "an event that is recorded is not imported again",
		under: "store/eventlog", old: "return true, w.mustBe(", new: "return false, w.mustBe(",
		in: "handlers", tests: []string{"TestImport"},
	},
	{
		name: "import_conflict", breaks: "the same id with other content is a conflict",
		under: "store/eventlog", old: "return &conflictError{id}", new: "return nil",
		in: "handlers", tests: []string{"TestImport"},
	},
	{
		name: "import_memory", breaks: "a line that waits for its batch is not overwritten",
		under: "store/eventlog", old: "l.snapshot = all[at : at+len(object) : at+len(object)]", new: "l.snapshot = object; _ = at",
		in: "store", tests: []string{"TestImportsShareNoBytes"},
	},
	{
		name: "change_overtaken", breaks: "a change is computed from the state that it replaces",
		under: "store/eventlog", old: "return errOvertaken", new: "_ = errOvertaken",
		tests: []string{"TestChangeResourceComputesAgainWhenOvertaken"},
	},
	{
		name: "change_condition", breaks: "If-Match guards a change",
		under: "store/eventlog", old: "!slices.Contains(c.OneOf, rec.eventID())", new: "false",
		in: "handlers", tests: []string{"TestResourceConditions"},
	},
	{
		name: "backup_digest", breaks: "a backup with any changed byte is refused",
		under: "store/backup", old: "!bytes.Equal(sum, digest)", new: "false",
		in: "cli", tests: []string{"TestBadBackups"},
	},
	{
		name: "restore_compares", breaks: "a restore compares the stored records with the backup",
		under: "store", old: "s.kept == given.kept && s.passing <= given.passing && s.sum == given.sum", new: "s.kept <= given.kept",
		tests: []string{"TestLoadComparesWhatWasStored"},
	},
	{
		name: "cache_replaced", breaks: "a read in memory is what the last acknowledged update left",
		under: "store/kv/badgerkv", old: "c.db.cache.replace(c.pending, version)", new: "",
		tests: []string{"TestCachedReadsAreExact"},
	},
	{
		name: "database_no_turn", breaks: "processes commit one after another",
		under: "store/kv/pgkv", old: `statement{"turn", "select 1 from turn where id = 1 for update"}`, new: `statement{"turn", "select 1 from turn where id = 1"}`,
		tests: []string{"TestConformanceOfTwoProcesses"},
	},
	{
		name: "database_mark_unread", breaks: "a commit without an answer counts only if its mark is there",
		under: "store/kv/pgkv", old: "select seq from mark where server = $1 and seq = $2", new: "select seq from mark where server = $1 and seq <= $2",
		tests: []string{"TestACommitWithoutAnAnswer", "TestEveryOutcomeIsTrueWhileConnectionsAreCut"},
	},
	{
		name: "database_commit_made_again", breaks: "a commit without an answer is not made again if its mark is there",
		under: "store/kv/pgkv", old: "row: func([][]byte) { in = true }", new: "row: func([][]byte) { in = false }",
		tests: []string{"TestACommitWithoutAnAnswer", "TestEveryOutcomeIsTrueWhileConnectionsAreCut"},
	},
}
