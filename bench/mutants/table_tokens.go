package main

// Refresh tokens, by the table of docs/internals/decisions.md, and access tokens.
var tokenMutants = []mutant{
	{
		name: "refresh_client_before_reuse", breaks: "another client's replay never hurts a family",
		under: "store", old: "o.family.client != r.Client.ID", new: "o.family.client != r.Client.ID && t.spentAt.IsZero()",
		tests: []string{"TestRotateRefreshByAnotherClient"},
	},
	{
		name: "refresh_replay_revokes", breaks: "RFC 9700 §4.14.2: a stolen token ends its family",
		under: "store", old: "revokeFamily(o.tx, o.ending, o.family, o.now, reason)", new: "error(nil)",
		tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_of_revoked_family", breaks: "RFC 9700 §4: a revoked family stays revoked",
		under: "store", old: "!o.family.revokedAt.IsZero()", new: "false",
		tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_successor_rotated", breaks: "a replay after the successor was rotated revokes",
		under: "store", old: "case rotated || ", new: "case ",
		tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_confirmed", breaks: "RFC 9700 §4: a repeat of the parent of a used pair is a theft",
		under: "store", old: "t.confirmed || ", new: "",
		tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_confirmation_under_way", breaks: "RFC 9700 §4: a use counts before it is committed",
		under: "store", old: " || o.isConfirming(made)", new: "",
		tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_lost_access_dies", breaks: "RFC 9700 §4: the access token of a lost pair ends",
		under: "store", old: "o.tx.Delete(record.AccessTokenKey(lost.accessHash))", new: "error(nil)",
		tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_scope_widened", breaks: "RFC 6749 §6: a refresh never widens the scope",
		under: "store", old: "o.asked.Beyond(t.scope) | ", new: "",
		tests: []string{"TestRotateRefreshScope"},
	},
	{
		name: "refresh_scope_kept", breaks: "RFC 6749 §6: a new refresh token has the scope of the old one",
		under: "store", old: "parent: parent, scope: f.scope", new: "parent: parent, scope: accessScope",
		tests: []string{"TestRotateRefreshScope"},
	},
	{
		name: "refresh_expiry", breaks: "RFC 9700 §4: a refresh token expires after 14 idle days",
		under: "store", old: "!o.now.Before(t.expiresAt)", new: "false",
		tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_absolute_end", breaks: "RFC 9700 §4: an authorization ends after a year",
		under: "store", old: "earlier(now.Add(s.Lifetimes().RefreshToken), f.expiresAt)", new: "now.Add(s.Lifetimes().RefreshToken)",
		tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_at_two_servers", breaks: "a pair used at one server is not replaced at another",
		under: "store", old: "s.isShared && !u.confirms.IsZero()", new: "false",
		tests: []string{"TestRefreshAtTwoServers", "TestFirstUseIsStoredBeforeItsAnswer"},
	},
	{
		name: "clock_comparison", breaks: "RFC 6750: a token has expired at its exact end",
		under: "store", fn: "readPrincipal", old: "!now.Before(t.expiresAt)", new: "now.After(t.expiresAt)",
		in: "handlers", tests: []string{"TestBearerExpiry"},
	},
	{
		name: "bearer_of_revoked_family", breaks: "RFC 6750: a revoked token is refused from the next request on",
		under: "store", fn: "readPrincipal", old: "!f.revokedAt.IsZero()", new: "false",
		in: "handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "user_generation", breaks: "RFC 9700 §4: a new password ends the user's tokens",
		under: "store", old: " || p.user.Generation != l.userGeneration", new: "",
		in: "handlers", tests: []string{"TestEndedPartiesLoseTheirTokens"},
	},
	{
		name: "all_scopes", breaks: "no scope means the five data scopes for ever",
		under: "store", old: "ScopeData = ScopeAccountsRead - 1", new: "ScopeData = scopeEnd - 1",
		tests: []string{"TestAllScopesAreTheFiveDataScopes"},
	},
	{
		name: "acting_opens", breaks: "a platform client never creates the account that it acts for",
		under: "store/eventlog", old: `return c.Live(tx)`, new: ``,
		in: "store", tests: []string{"TestActingCreatesNoAccount"},
	},
	{
		name: "account_generation", breaks: "the tokens of a disabled account end, and enabling revives none",
		under: "store", old: " || !isOpen ||", new: " ||",
		tests: []string{"TestDisabledAccount"},
	},
	{
		name: "account_of_a_sign_in", breaks: "users of a disabled account cannot sign in",
		under: "store", old: " && (u.Operator || u.accountNow.isOpenTo(u.accountNow.Generation))", new: "",
		tests: []string{"TestDisabledAccount"},
	},
	{
		name: "account_generation_of_a_session", breaks: "enabling an account revives no session",
		under: "store", old: " && (u.Operator || u.accountNow.Generation == accountGeneration)", new: "",
		tests: []string{"TestSession"},
	},
	{
		name: "webhooks_of_a_disabled_account", breaks: "nothing is sent while the account is disabled",
		under: "store", old: " && e.Stopped.IsZero() && !e.Held", new: " && !e.Held",
		tests: []string{"TestWebhooksOfADisabledAccount"},
	},
	{
		name: "protected", breaks: "who may not change an operator never does",
		under: "store", old: "g.Protect && isProtected", new: "false",
		tests: []string{"TestProtected"},
	},
	{
		name: "protected_before_the_update", breaks: "a promotion between the check and the change wins",
		under: "store", old: "err = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) (err error) {\n\t\tu, err = guards.changeUser(tx, user,",
		new: "err = s.db.View(ctx, func(r kv.Reader) error {\n\t\tnow, err := readUserNamed(r, user)\n\t\tif err == nil {\n\t\t\terr = guards.user(now)\n\t\t}\n\t\treturn err\n\t})\n" +
			"\tif err != nil {\n\t\treturn User{}, err\n\t}\n" +
			"\terr = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) (err error) {\n\t\tu, err = checks(nil).changeUser(tx, user,",
		tests: []string{"TestProtected"},
	},
	{
		name: "live_in_the_update", breaks: "a change whose token ends while it waits is refused",
		under: "store", old: "return record.GuardedDB{DB: db, Check: cs.begin}", new: "return db",
		tests: []string{"TestATokenEndsWhileItsChangeWaits"},
	},
	{
		name: "promotion_of_a_lent_password", breaks: "who may create users is no operator by a later promotion",
		under: "store", old: "if u.lent {", new: "if false {",
		tests: []string{"TestPromotionOfWhatAPlatformClientKnows"},
	},
	{
		name: "entity_tag_of_the_account", breaks: "the ETags of two accounts differ",
		under: "handlers/web", old: `return "." + strconv.FormatUint(h.Sum64(), 36)`, new: `return "." + strconv.FormatUint(0*h.Sum64(), 36)`,
		in: "handlers", tests: []string{"TestEntityTagsDifferByAccount"},
	},
	{
		name: "revision_of_a_change", breaks: "RFC 9110 §13.1.1: a change on the condition of another revision is refused",
		under: "store", old: "g.If != nil && !g.If(revision)", new: "false",
		tests: []string{"TestRevisions"},
	},
	{
		name: "known_account", breaks: "a typing error makes no account",
		under: "store", old: "guards.wantKnownAccount() && ", new: "false && ",
		tests: []string{"TestKnownAccount"},
	},
	{
		name: "bound_clients", breaks: "an account with bound clients is not deleted",
		under: "store", old: "func(c Client) bool { return c.Account == id }", new: "func(c Client) bool { return false }",
		tests: []string{"TestAnAccountInUseIsNotDeleted"},
	},
	{
		name: "scope_of_the_token", breaks: "RFC 6750: a token permits only its scope",
		under: "store", old: "p.Scope.Covers(need) && ", new: "",
		in: "handlers", tests: []string{"TestBearerScope"},
	},
	{
		name: "scope_of_a_narrowed_client", breaks: "RFC 6750: a client narrowed later is limited from the next request on",
		under: "store", old: " && p.narrowed.Covers(need)", new: "",
		in: "handlers", tests: []string{"TestBearerOfANarrowedClient"},
	},
	{
		name: "revoke_others_refresh", breaks: "RFC 7009: a client cannot revoke another's refresh token",
		under: "store", old: "f.client != c.ID || !f.revokedAt", new: "!f.revokedAt",
		in: "handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "revoke_takes_the_family", breaks: "RFC 7009: a revoked refresh token revokes its family",
		under: "store", fn: "revokeByRefresh", old: "revokeFamily(tx, n, f, now, ReasonRevokedByClient)", new: "error(nil)",
		in: "handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "account_of_a_client", breaks: "a change of the account for which a client acts ends its tokens",
		under: "store", old: "c.Generation++ // its tokens act for the account of before", new: "",
		in: "handlers", tests: []string{"TestClientCredentialsEnds"},
	},
	{
		name: "introspect_others", breaks: "RFC 7662: a client learns only of its own access tokens",
		under: "store", old: "p.ClientID != c.ID && !c.Introspect", new: "false",
		in: "handlers", tests: []string{"TestIntrospectWhose"},
	},
}
