package main

// Moving in: what an import may do to a store.
var importMutants = []mutant{
	{
		name: "import_that_updates", breaks: "an import changes nothing that exists",
		under: "store", old: "err != nil || !im.options.Update || !isNew ||", new: "err != nil || !isNew ||",
		tests: []string{"TestImportUpdatesWhatNobodyUsed"},
	},
	{
		name: "import_takes_over", breaks: "no line can take a user over",
		under: "store", fn: "foundUser", old: "!isNew || !found.isReplaceable()", new: "!isNew",
		tests: []string{"TestImportTakesNobodyOver"},
	},
	{
		name: "import_of_an_operator", breaks: "an operator needs leave",
		under: "store", fn: "readUser", old: "if r.Operator {", new: "if false {",
		tests: []string{"TestImportNeedsLeave"},
	},
	{
		name: "import_of_a_platform_client", breaks: "a platform client, and one that may introspect, need leave",
		under: "store", fn: "readClient", old: "if r.Platform || r.Introspect {", new: "if false {",
		tests: []string{"TestImportNeedsLeave"},
	},
	{
		name: "import_of_another_account", breaks: "no line moves a user to another account or id",
		under: "store", fn: "applyUser", old: "case err == nil && (found.Account != u.Account || u.hasID && found.ID != u.ID),", new: "case false,",
		tests: []string{"TestImportTakesNobodyOver"},
	},
	{
		name: "import_updates_who_signed_in", breaks: "--update leaves a user who signed in, even after the session has ended",
		under: "store", fn: "userSignedIn", old: "if !u.isReplaceable() {", new: "if true {",
		tests: []string{"TestImportUpdatesNobodyWhoWasUsed"},
	},
	{
		name: "import_updates_who_introspects", breaks: "--update leaves a client that only introspects",
		under: "store", fn: "clientAuthenticated", old: "if !c.isReplaceable() {", new: "if true {",
		tests: []string{"TestImportUpdatesNobodyWhoWasUsed"},
	},
	{
		name: "import_updates_a_public_client", breaks: "--update leaves a public client whose users were deleted",
		under: "store", fn: "createFamily", old: "if !f.imported {", new: "if false {",
		tests: []string{"TestImportUpdatesNobodyWhoWasUsed"},
	},
	{
		name: "import_rehashes_the_same", breaks: "--update of the password of before changes nothing",
		under: "store", fn: "foundUser", old: "isSame := u.isSame && u.stored == found.password", new: "isSame := false",
		tests: []string{"TestImportUpdatesNoPasswordThatIsTheSame"},
	},
	{
		name: "import_that_was_killed", breaks: "a killed import has one audit line, which counts what is there",
		under: "store", fn: "commit", old: "im.run.done(0)", new: "",
		tests: []string{"TestTheAuditLineOfAnImportIsRightAtEveryMoment"},
	},
	{
		name: "import_prints_a_secret", breaks: "a record of an import is printed without its secrets",
		under: "store/moving", old: "func (Secret) String() string { return \"[redacted]\" }", new: "func (s Secret) String() string { return string(s) }",
		tests: []string{"TestALineIsReadAndWritten"},
	},
	{
		name: "import_repeats_a_hash", breaks: "no error of an import repeats a hash",
		under: "store", fn: "parseHash", old: "\"password_hash \" + err.Error()", new: "\"password_hash \" + string(h.JSON) + err.Error()",
		tests: []string{"TestARefusalRepeatsNoSecret"},
	},
	{
		name: "import_remembers_lines", breaks: "the memory of an import does not grow with the file",
		under: "store", fn: "settle", old: "if im.options.DryRun {", new: "if true {",
		tests: []string{"TestImportHoldsNoLine"},
	},
	{
		name: "import_of_a_dear_phpass", breaks: "no hash that an import takes costs more than about a second",
		under: "store/secret", old: "password = password[:min(len(password), phpassRead)]", new: "_ = phpassRead",
		tests: []string{"TestPhpassReadsABoundedPassword"},
	},
	{
		name: "refusals_on_a_busy_machine", breaks: "load does not show whose hash is dear",
		under: "store/secret", old: "max(longest, min(h.recent.longest(), recentMax*longest)) * 5 / 4", new: "longest * 5 / 4",
		tests: []string{"TestRefusalsFollowTheLoad"},
	},
}
