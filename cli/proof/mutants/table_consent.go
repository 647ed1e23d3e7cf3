package main

// Consent that is remembered.
var consentMutants = []mutant{
	{
		name: "remembered_lineage", breaks: "what is remembered ends with a generation, and is one account's",
		file: "store/remembered.go", old: " || r.lineage != code.lineage", new: "",
		in: "./store", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_parties", breaks: "a new password and disabling end what is remembered",
		file: "store/remembered.go", old: "if _, err := readParties(rd, r.lineage); err != nil {", new: "if _, err := readParties(rd, r.lineage); err != nil && !errors.Is(err, record.ErrDisabled) {",
		in: "./store", tests: []string{"TestWhatEndsRememberedConsent", "TestRememberedConsentAtTwoServers"},
	},
	{
		name: "remembered_epoch", breaks: "a change of the client ends what is remembered",
		file: "store/remembered.go", old: "client.ConsentEpoch == r.epoch", new: `client.ID != ""`,
		in: "./store", tests: []string{"TestWhatEndsRememberedConsent"},
	},
	{
		name: "remembered_scope", breaks: "more scopes bring the screen back",
		file: "store/remembered.go", old: " && a.scope.Covers(scope)", new: "",
		in: "./store", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_redirect_uri", breaks: "another redirect URI brings the screen back",
		file: "store/remembered.go", old: "a.redirectURI.Equal(secret.HashOf(redirectURI)) && ", new: "",
		in: "./store", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_year", breaks: "a year brings the screen back",
		file: "store/remembered.go", old: "now.Before(a.ends())", new: "true",
		in: "./store", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_smaller", breaks: "a smaller decision does not extend a larger one",
		file: "store/remembered.go", old: "next.scope.Covers(a.scope)", new: "true",
		in: "./store", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_as_shown", breaks: "a screen from before a change of the client is not remembered",
		file: "handlers/consent.go", old: "Epoch: t.Epoch", new: "Epoch: a.client.ConsentEpoch",
		in: "./handlers", tests: []string{"TestSilentGrantAttacks"},
	},
	{
		name: "remembered_private_scheme", breaks: "RFC 8252 §8.6: a scheme that any app can claim is not remembered",
		file: "store/remembered.go", old: "c.Epoch.IsZero() || !web", new: "_ = web; c.Epoch.IsZero()",
		in: "./store", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_bound", breaks: "the record of a user and client has a bound",
		file: "store/remembered.go", old: "r.allowed = r.allowed[max(0, len(r.allowed)-rememberedMax):]", new: "",
		in: "./store", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_revoke", breaks: "Revoke ends what is remembered",
		file: "store/remembered.go", old: "return stood, tx.Delete(record.ConsentKey(user, client))", new: "return stood, nil",
		in: "./store", tests: []string{"TestWhatEndsRememberedConsent"},
	},
	{
		name: "remembered_deny", breaks: "Deny ends what was allowed before",
		file: "store/code.go", old: "_, err := forget(tx, c.User.ID, c.Client.ID, now)\n\t\treturn err", new: "return nil",
		in: "./handlers", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_operator", breaks: "an operator's revocation ends what is remembered",
		file: "store/family_list.go", old: "forget(tx, f.user, f.client, now)", new: "false, error(nil)",
		in: "./store", tests: []string{"TestWhatEndsRememberedConsent"},
	},
	{
		name: "remembered_epoch_renewed", breaks: "a client's new name, redirect URIs or scopes renew its epoch",
		file: "store/client_spec.go", old: "c.ConsentEpoch.IsZero() || c.Name", new: "c.ConsentEpoch.IsZero() || false && c.Name",
		in: "./handlers", tests: []string{"TestSilentGrantAttacks"},
	},
	{
		name: "remembered_public", breaks: "RFC 8252 §8.6: a public client is never remembered",
		file: "store/client_spec.go", old: "spec.Public && spec.Consent == ConsentRemember", new: "false",
		in: "./store", tests: []string{"TestCreateClient"},
	},
	{
		name: "remembered_audit", breaks: "the audit line of a grant without a screen says remembered",
		file: "store/remembered.go", old: "code.remembered = true", new: "",
		in: "./store", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_unlisted", breaks: "the account page lists who is let through",
		file: "store/granted.go", old: "g.Remembered = a.ends()", new: "_ = a.ends()",
		in: "./handlers", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_of_deleted_user", breaks: "a deleted user leaves no remembered consent",
		file: "store/user.go", old: "record.DeleteAll(ctx, s.db, record.UserConsentsKey(u.ID).All())", new: "error(nil)",
		in: "./store", tests: []string{"TestRememberedConsentOnTheAccountPage"},
	},
	{
		name: "remembered_prompt_consent", breaks: "prompt=consent brings the screen back",
		file: "handlers/remembered.go", old: `a.hasPrompt("consent") || `, new: "",
		in: "./handlers", tests: []string{"TestRememberedConsent"},
	},
	{
		name: "remembered_in_a_frame", breaks: "a framed request is not let through",
		file: "handlers/remembered.go", old: ` && (dest == "" || dest == "document")`, new: ` && dest != "never"`,
		in: "./handlers", tests: []string{"TestSilentRequests"},
	},
	{
		name: "remembered_by_script", breaks: "a scripted request is not let through",
		file: "handlers/remembered.go", old: ` && (mode == "" || mode == "navigate")`, new: ` && mode != "never"`,
		in: "./handlers", tests: []string{"TestSilentRequests"},
	},
	{
		name: "remembered_prefetch", breaks: "a guess of the browser is not let through",
		file: "handlers/remembered.go", old: `r.Header.Get(guess) != ""`, new: `guess == ""`,
		in: "./handlers", tests: []string{"TestSilentRequests"},
	},
	{
		name: "prompt_none_signed_out", breaks: "prompt=none shows no sign-in screen",
		file: "handlers/authorize.go", old: "\t\tif unseen {", new: "\t\tif false {",
		in: "./handlers", tests: []string{"TestPromptNone"},
	},
	{
		name: "prompt_none_beside", breaks: "OpenID Connect Core §3.1.2.1: none stands alone",
		file: "handlers/authorize.go", old: `a.hasPrompt("none") && len(a.prompts) > 1`, new: "false",
		in: "./handlers", tests: []string{"TestPromptNone"},
	},
	{
		name: "prompt_after_sign_in", breaks: "a sign-in does not fulfil prompt=consent",
		file: "handlers/authorize.go", old: `p == "login" || p == "select_account"`, new: "true",
		in: "./handlers", tests: []string{"TestPromptIsKeptOverASignIn"},
	},
	{
		name: "max_age", breaks: "RFC 9470 §4: an older sign-in than max_age does not do",
		file: "handlers/authorize.go", old: " || a.maxAge >= 0 && s.store", new: " || false && s.store",
		in: "./handlers", tests: []string{"TestPromptNone"},
	},
}
