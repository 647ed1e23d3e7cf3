package main

// What a second factor stands on.
var factorMutants = []mutant{
	{
		name: "app_code_repeated", breaks: "RFC 6238 §5.2: a code of an app works once, and none before it later",
		under: "store", old: "case step <= last:", new: "case false:",
		in: "handlers", tests: []string{"TestAppCodeWorksOnce"},
	},
	{
		name: "app_code_uncounted", breaks: "wrong codes are counted in the user's record",
		under: "store", old: "f.guesses = codeGuesses{f.guesses.count + 1, now}", new: "",
		tests: []string{"TestWrongCodesAreCountedInTheRecord"},
	},
	{
		name: "second_step_twice", breaks: "a second step serves once",
		under: "store", old: "err = r.Get(step.key())\n\tif err == nil {\n\t\treturn User{}, record.ErrReplayed", new: "err = r.Get(step.key())\n\tif err == nil {\n\t\treturn u, nil",
		in: "handlers", tests: []string{"TestSecondStep"},
	},
	{
		name: "session_without_factor", breaks: "who has a second factor has no session without it",
		under: "store", old: "\n\t\t(sn.Amr.HasFactor() || !s.NeedsFactor(sn.User))", new: "\n\t\ttrue",
		in: "handlers", tests: []string{"TestRaisingTheSettingEndsSessions"},
	},
	{
		name: "session_of_an_earlier_factor", breaks: "a change of the second factor ends the other sign-ins",
		under: "store", old: "sn.factorRevision == sn.User.factorRevision", new: "true",
		tests: []string{"TestAChangeOfTheFactorEndsTheRest"},
	},
	{
		name: "code_of_an_earlier_factor", breaks: "a change of the second factor ends the unredeemed codes",
		under: "store", old: "u.factorRevision != c.factorRevision {", new: "u.factorRevision < c.factorRevision {",
		tests: []string{"TestAChangeOfTheFactorEndsTheRest"},
	},
	{
		name: "factor_changed_by_password_alone", breaks: "a change of the second factor asks for a fresh one",
		under: "handlers/oauth", old: "a.user.HasFactor() && f.site.Store.Now().Sub(a.session.FactorAt) > factorFresh", new: "false",
		in: "handlers", tests: []string{"TestAccountSecondFactor"},
	},
	{
		name: "device_before_the_factor", breaks: "a browser is known after both steps",
		under: "handlers/oauth", old: "web.OutcomeOf(r.Context()).SignIn = web.SecondFactorAsked\n", new: "web.OutcomeOf(r.Context()).SignIn = web.SecondFactorAsked\n\tsetDevice(s.site, w, r, user, \"\", true)\n",
		in: "handlers", tests: []string{"TestSecondStep"},
	},
}
