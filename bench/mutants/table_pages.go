package main

// Forms, sign-ins, consent and redirects.
var pageMutants = []mutant{
	{
		name: "csrf_origin", breaks: "RFC 6749 §10: a form that another site posted is refused",
		under: "handlers", fn: "CheckOrigin", old: "err != nil", new: "err != nil && false",
		tests: []string{"TestLoginForgery", "TestConsentForgery"},
	},
	{
		name: "csrf_account", breaks: "the forms of the account page belong to the sign-in",
		under: "handlers", old: `!secret.EqualText(p.Value("form_token"), s.site.SessionFormToken(accountForm`, new: `false && !secret.EqualText(p.Value("form_token"), s.site.SessionFormToken(accountForm`,
		tests: []string{"TestAccountForgery"},
	},
	{
		name: "desk_gate", breaks: "only operators reach the desk",
		under: "handlers", old: "!session.User.Operator { //", new: "false { //",
		tests: []string{"TestDeskGate"},
	},
	{
		name: "desk_form", breaks: "a form of the desk belongs to its session",
		under: "handlers", old: `!secret.EqualText(v.form.Value("form_token")`, new: `false && !secret.EqualText(v.form.Value("form_token")`,
		tests: []string{"TestDeskForgery"},
	},
	{
		name: "consent_of_another_sign_in", breaks: "a decision belongs to its sign-in, not only to its user",
		under: "handlers", fn: "belongsTo", old: "secret.EqualText(", new: "func(_, _ string) bool { return true }(",
		tests: []string{"TestConsentForgery"},
	},
	{
		name: "consent_no_more_than_shown", breaks: "a user allows only what was shown",
		under: "handlers", old: "!t.Scope.Covers(a.scope)", new: "false",
		tests: []string{"TestConsentHoldsWhatItShowed"},
	},
	{
		name: "form_action", breaks: "the policy limits where the forms of our own pages lead",
		under: "handlers", old: `"; form-action 'self'"`, new: `""`,
		tests: []string{"TestFormAction"},
	},
	{
		name: "redirect_exactness", breaks: "RFC 9700 §2.1: redirect URIs match byte for byte",
		under: "store", old: "registered == asked", new: "strings.HasPrefix(asked, registered)",
		tests: []string{"TestMatchRedirectURIByteForByte"},
	},
	{
		name: "redirect_unregistered", breaks: "RFC 6749 §3.1.2.4: no redirect to an unregistered URI",
		under: "handlers", old: "client.RedirectsTo(uri)", new: `uri != ""`,
		tests: []string{"TestAuthorizeUnsoundClient", "TestRedirectURIRefused"},
	},
	{
		name: "session_rotation", breaks: "every sign-in has a new id",
		under: "store", old: "token := secret.New(s.random, secret.SessionToken)", new: "token := old; if old.IsZero() { token = secret.New(s.random, secret.SessionToken) }",
		in: "handlers", tests: []string{"TestLogin", "TestSessionCookie", "TestLoginForgery"},
	},
	{
		name: "session_generation", breaks: "a new password ends the sign-ins",
		under: "store", old: " && u.Generation == generation", new: "",
		tests: []string{"TestSession"},
	},
	{
		name: "remembered_lineage", breaks: "what is remembered ends with a generation, and is one account's",
		under: "store", old: " || r.lineage != code.lineage", new: "",
		tests: []string{"TestRememberedConsent"},
	},
}
