package main

// What keeps the data directory and its backups whole.
var keepMutants = []mutant{
	{
		name: "erased_version", breaks: "a new log never has the version of an erased one",
		file: "store/eventlog/codec.go", old: "h.generation = erased << erasedShift", new: "h.generation = 0 * erased",
		in: "./handlers", tests: []string{"TestEventsOfAnErasedAccountStayErased"},
	},
	{
		name: "erased_account_is_its_own", breaks: "a deletion erases no account made since",
		file: "store/account.go", old: "!a.erasedSince.Equal(since)", new: "!a.erasedSince.Equal(a.erasedSince)",
		in: "./store", tests: []string{"TestADeletionLeavesTheNextAccountOfThatIDAlone"},
	},
	{
		name: "refused_erasure", breaks: "a refused deletion of an account leaves it open",
		file: "store/account.go", old: "err = s.mustBeUnused(ctx, id)\n\tif err == nil {\n\t\tif since", new: "if err == nil {\n\t\tif since",
		in: "./store", tests: []string{"TestDeleteAccountAgainstWhoComesMeanwhile"},
	},
	{
		name: "another_format_is_refused", breaks: "appliance: a store of another format is refused",
		file: "store/store.go", old: "if format != formatVersion {", new: "if false {",
		in: "./cli", tests: []string{"TestStoreOfAnotherFormat"},
	},
	{
		name: "group_memory", breaks: "kv contract 2: a write does not keep the caller's memory",
		file: "store/kv/badgerkv/pending.go", old: "&slot{key: bytes.Clone(key)}", new: "&slot{key: key}",
		in: "./store/kv/badgerkv", tests: []string{"TestWritersShareNoBytes"},
	},
	{
		name: "cache_replaced", breaks: "a read in memory is what the last acknowledged update left",
		file: "store/kv/badgerkv/committer.go", old: "\tc.db.cache.replace(c.pending, version)\n", new: "",
		in: "./store/kv/badgerkv", tests: []string{"TestCachedReadsAreExact"},
	},
	{
		name: "cache_floor", breaks: "a value read before a commit is not cached after it",
		file: "store/kv/badgerkv/cache.go", old: "young || old || version < s.floor ||", new: "young || old ||",
		in: "./store/kv/badgerkv", tests: []string{"TestCacheAnswersAsTheEngine"},
	},
	{
		name: "cache_floor_sinks", breaks: "what was read before a deletion is not cached after it, whatever was dropped in between",
		file: "store/kv/badgerkv/cache.go", old: "max(s.floor, s.newest)", new: "s.newest",
		in: "./store/kv/badgerkv", tests: []string{"TestADeletedRecordStaysAbsent"},
	},
	{
		name: "reserve_kept", breaks: "the space of merges is given up when another program fills the disk",
		file: "store/kv/badgerkv/space.go", old: "max(free, freeSpaceMin)-freeSpaceMin", new: "free",
		in: "./store/kv/badgerkv", tests: []string{"TestReserve"},
	},
	{
		name: "cache_version", breaks: "an open transaction does not see a later commit",
		file: "store/kv/badgerkv/cache.go", old: "\tif e.since > version {\n\t\treturn nil, false\n\t}\n", new: "",
		in: "./store/kv/badgerkv", tests: []string{"TestCachedReadsAreExact"},
	},
	{
		name: "state_shared", breaks: "a state stays as it was taken",
		file: "store/kv/memkv/memkv.go", old: "t.state, t.shared = t.state.copy(), false", new: "t.shared = false",
		in: "./store/kv/memkv", tests: []string{"TestStateStays"},
	},
	{
		name: "state_expiry", breaks: "a record that was renewed is not dropped at its old time",
		file: "store/kv/memkv/state.go", old: "\t\ts.expiring.Delete(old)\n", new: "\t\t_ = old\n",
		in: "./store/kv/memkv", tests: []string{"TestExpiryIsIndexed"},
	},
	{
		name: "state_flushed", breaks: "a state has the uses and audit lines that wait",
		file: "cli/datadir/open.go", old: "\tk.Store.Flush(ctx)\n", new: "",
		in: "./cli/datadir", tests: []string{"TestStateIsOpenedAgain"},
	},
	{
		name: "import_memory", breaks: "a line that waits for its batch is not overwritten",
		file: "store/eventlog/import_line.go", old: "l.snapshot = all[at : at+len(object) : at+len(object)]", new: "l.snapshot = object; _ = at",
		in: "./store", tests: []string{"TestImportsShareNoBytes"},
	},
	{
		name: "empty_logs", breaks: "a store killed while creating a log opens again",
		file: "store/kv/badgerkv/badgerkv.go", old: "return stamped, removeEmptyLogs(opts.Dir)", new: "return stamped, nil",
		in: "./store/kv/badgerkv", tests: []string{"TestLogsThatWereOnlyBegun"},
	},
	{
		name: "umask", breaks: "no file is readable by others",
		file: "cli/datadir/system_unix.go", old: "syscall.Umask(0o077)", new: "syscall.Umask(0)",
		in: "./cli", tests: []string{"TestDataDirectory"},
	},
	{
		name: "open_directory", breaks: "a directory with files that was open to others is refused",
		file: "cli/datadir/datadir.go", old: "\tif !empty {\n\t\treturn term.Fail(", new: "\tif false {\n\t\treturn term.Fail(",
		in: "./cli", tests: []string{"TestDataDirectory"},
	},
	{
		name: "foreign_directory", breaks: "appliance: another program's directory is left alone",
		file: "cli/datadir/datadir.go", old: "if stranger != \"\" {", new: "if false {",
		in: "./cli", tests: []string{"TestBadConfiguration"},
	},
	{
		name: "empty_data", breaks: "appliance: an empty --data means no directory",
		file: "cli/settings.go", old: "if p.data == \"\" && wrong == nil {", new: "if false {",
		in: "./cli", tests: []string{"TestBadConfiguration"},
	},
	{
		name: "socket_link", breaks: "a link in place of the admin socket is refused",
		file: "cli/datadir/socket.go", old: "case info.Mode()&fs.ModeSymlink != 0:", new: "case false:",
		in: "./cli", tests: []string{"TestDataDirectory"},
	},
	{
		name: "peer_user", breaks: "another user's connection to the admin socket is closed",
		file: "cli/datadir/socket.go", old: "return peer == server || peer == 0 }", new: "return peer >= 0 }",
		in: "./cli/datadir", tests: []string{"TestMayAdminister"},
	},
	{
		name: "hostile_length", breaks: "data that unpacks to more than its header states is refused early",
		file: "store/backup/reader.go", old: "zstd.WithDecoderMaxMemory(chunkSizeMax), zstd.WithDecoderMaxWindow(chunkSizeMax)", new: "zstd.WithDecoderMaxMemory(1<<40)",
		in: "./cli", tests: []string{"TestHostileMemory"},
	},
	{
		name: "backup_digest", breaks: "a backup with any changed byte is refused",
		file: "store/backup/reader.go", old: "if !bytes.Equal(sum, digest) {", new: "if false {",
		in: "./cli", tests: []string{"TestBadBackups"},
	},
	{
		name: "restore_compares", breaks: "a restore compares the stored records with the backup",
		file: "store/backup.go", old: "return s.kept == given.kept && s.passing <= given.passing && s.sum == given.sum", new: "return s.kept <= given.kept",
		in: "./store", tests: []string{"TestLoadComparesWhatWasStored"},
	},
}
