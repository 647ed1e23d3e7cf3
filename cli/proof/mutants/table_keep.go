package main

// What keeps the data directory, its backups and its migrations whole.
var keepMutants = []mutant{
	{
		name: "migration_lists_codes", breaks: "reliability R15: a migrated store lists the codes of before",
		file: "store/migrate.go", old: "return []kv.Record{r, {Key: c.indexKey(), ExpiresAt: r.ExpiresAt}}, nil", new: "return []kv.Record{r}, nil",
		in: "./store", tests: []string{"TestMigrate"},
	},
	{
		name: "migration_lists_a_code_once", breaks: "reliability R15: a code that was listed already is listed once",
		file: "store/migrate.go", old: "\tcase tagUserCode:\n\t\treturn nil, nil\n", new: "",
		in: "./store", tests: []string{"TestMigrate"},
	},
	{
		name: "migration_refuses_newer", breaks: "appliance: a newer schema is refused",
		file: "store/store.go", old: "if found > schemaVersion {", new: "if false {",
		in: "./cli", tests: []string{"TestMigrate"},
	},
	{
		name: "migration_backup_stays", breaks: "appliance: a migration leaves a backup of what was before",
		file: "cli/migrate.go", old: "if err = f.name(); err == nil {", new: "if err == nil {",
		in: "./cli", tests: []string{"TestMigrate"},
	},
	{
		name: "migration_sweeps", breaks: "reliability R15: what a killed migration left is removed",
		file: "cli/migrate.go", old: "errors.Join(removeUnfinishedBackup(r.dir), removeUnused(r.dir))", new: "errors.Join()",
		in: "./cli", tests: []string{"TestMigrateKilled"},
	},
	{
		name: "group_memory", breaks: "kv contract 2: an update that fails gives back its own memory, and none of another's",
		file: "store/kv/badgerkv/pending.go", old: "p.byteRoom.rewind(p.begun)", new: "p.byteRoom.rewind(slabMark{})",
		in: "./store/kv/badgerkv", tests: []string{"TestWritersShareNoBytes"},
	},
	{
		name: "import_memory", breaks: "events_3.3: a line that waits for its batch stays as it was read",
		file: "store/event_line.go", old: "l.snapshot = all[at : at+len(object) : at+len(object)]", new: "l.snapshot = object; _ = at",
		in: "./store", tests: []string{"TestImportsShareNoBytes"},
	},
	{
		name: "empty_logs", breaks: "reliability R1: a store that was killed when its log was begun opens again",
		file: "store/kv/badgerkv/badgerkv.go", old: "return stamped, removeEmptyLogs(opts.Dir)", new: "return stamped, nil",
		in: "./store/kv/badgerkv", tests: []string{"TestLogsThatWereOnlyBegun"},
	},
	{
		name: "umask", breaks: "attack 95: no file is made for others to read",
		file: "cli/system_unix.go", old: "syscall.Umask(0o077)", new: "syscall.Umask(0)",
		in: "./cli", tests: []string{"TestDataDirectory"},
	},
	{
		name: "open_directory", breaks: "attack 95: a directory that was open while it held something is refused",
		file: "cli/datadir.go", old: "\tif !empty {\n\t\treturn fail(exitConfig, \"close it", new: "\tif false {\n\t\treturn fail(exitConfig, \"close it",
		in: "./cli", tests: []string{"TestDataDirectory"},
	},
	{
		name: "foreign_directory", breaks: "appliance: another program's directory is left alone",
		file: "cli/datadir.go", old: "if stranger != \"\" {", new: "if false {",
		in: "./cli", tests: []string{"TestBadConfiguration"},
	},
	{
		name: "empty_data", breaks: "appliance: an empty --data means no directory",
		file: "cli/settings.go", old: "if p.data == \"\" && wrong == nil {", new: "if false {",
		in: "./cli", tests: []string{"TestBadConfiguration"},
	},
	{
		name: "socket_link", breaks: "attack 94: no link stands in the admin socket's place",
		file: "cli/socket.go", old: "case info.Mode()&fs.ModeSymlink != 0:", new: "case false:",
		in: "./cli", tests: []string{"TestDataDirectory"},
	},
	{
		name: "peer_user", breaks: "attack 94: another user's connection to the admin socket is closed",
		file: "cli/socket.go", old: "return peer == server || peer == 0 }", new: "return peer >= 0 }",
		in: "./cli", tests: []string{"TestMayAdminister"},
	},
	{
		name: "hostile_length", breaks: "attack 96: what unpacks to more than it says is refused before it has",
		file: "store/backup/reader.go", old: "zstd.WithDecoderMaxMemory(chunkSizeMax), zstd.WithDecoderMaxWindow(chunkSizeMax)", new: "zstd.WithDecoderMaxMemory(1<<40)",
		in: "./cli", tests: []string{"TestHostileMemory"},
	},
	{
		name: "backup_digest", breaks: "reliability R14: a backup is what was written, to its last byte",
		file: "store/backup/reader.go", old: "if !bytes.Equal(sum, digest) {", new: "if false {",
		in: "./cli", tests: []string{"TestBadBackups"},
	},
	{
		name: "restore_compares", breaks: "reliability R14: what was stored is compared with what the backup holds",
		file: "store/backup.go", old: "return s.kept == given.kept && s.passing <= given.passing && s.sum == given.sum", new: "return s.kept <= given.kept",
		in: "./store", tests: []string{"TestLoadComparesWhatWasStored"},
	},
}
