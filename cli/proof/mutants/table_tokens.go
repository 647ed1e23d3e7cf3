package main

// Refresh tokens: the table of docs/decisions.md.
var refreshMutants = []mutant{
	{
		name: "refresh_client", breaks: "RFC 6749 §6: a refresh token is valid only for its own client",
		file: "store/refresh.go", old: "o.family.client != r.Client.ID", new: "false",
		in: "./store", tests: []string{"TestRotateRefreshByAnotherClient"},
	},
	{
		name: "refresh_client_before_reuse", breaks: "another client's replay never hurts a family",
		file: "store/refresh.go", old: "o.family.client != r.Client.ID", new: "o.family.client != r.Client.ID && t.spentAt.IsZero()",
		in: "./store", tests: []string{"TestRotateRefreshByAnotherClient"},
	},
	{
		name: "refresh_replay_revokes", breaks: "RFC 9700 §4.14.2: a stolen token ends its family",
		file: "store/refresh.go", old: "revokeFamily(o.tx, o.family, o.now, reason)", new: "error(nil)",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_of_revoked_family", breaks: "RFC 9700 §4: a revoked family stays revoked",
		file: "store/refresh.go", old: "!o.family.revokedAt.IsZero()", new: "false",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_retired", breaks: "RFC 9700 §4: use of a retired token is a theft",
		file: "store/refresh.go", old: "case !t.retiredAt.IsZero():", new: "case false:",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_successor_rotated", breaks: "a replay after the successor was rotated revokes at any age",
		file: "store/refresh.go", old: "case rotated:", new: "case false && rotated:",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_nonce", breaks: "spending a token erases the nonce that it was derived from",
		file: "store/refresh.go", old: "t.first, t.nonce, t.successor = false, secret.Nonce{}, ", new: "t.first, t.successor = false, ",
		in: "./store", tests: []string{"TestSpendingErasesTheNonce"},
	},
	{
		name: "refresh_first_version", breaks: "tokens of the first version of their record are judged like others",
		file: "store/refresh.go", old: "\tif t.first {\n\t\th = ", new: "\tif false {\n\t\th = ",
		in: "./store", tests: []string{"TestRefreshTokensOfTheFirstVersion"},
	},
	{
		name: "refresh_confirmation_committed", breaks: "RFC 9700 §4: a repeat of the parent of a used pair is a theft",
		file: "store/refresh.go", old: "case t.confirmed || o.isConfirming(made):", new: "case o.isConfirming(made):",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_confirmation_under_way", breaks: "RFC 9700 §4: a use counts before it is committed",
		file: "store/refresh.go", old: "case t.confirmed || o.isConfirming(made):", new: "case t.confirmed:",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_confirmation_mark", breaks: "RFC 9700 §4: a use of the pair is recorded",
		file: "store/lastused.go", old: "spent.confirmed = true", new: "spent.confirmed = false",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_lost_access_dies", breaks: "RFC 9700 §4: the access token of a lost pair ends",
		file: "store/refresh.go", old: "o.tx.Delete(record.AccessTokenKey(lost.access.Hash()))", new: "error(nil)",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_grace_by_the_clock", breaks: "a clock set back lengthens no grace",
		file: "store/issue.go", old: "a.Sub(b).Abs() <= span", new: "a.Sub(b) <= span",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_scope_widened", breaks: "RFC 6749 §6: a refresh never widens the scope",
		file: "store/refresh.go", old: "if !t.scope.Covers(o.asked) || ", new: "if ",
		in: "./store", tests: []string{"TestRotateRefreshScope"},
	},
	{
		name: "refresh_scope_lost", breaks: "a refresh names no scope that its client has lost",
		file: "store/refresh.go", old: "!t.scope.Covers(o.asked) || !o.client.Scope.Covers(o.asked) {", new: "!t.scope.Covers(o.asked) {",
		in: "./handlers", tests: []string{"TestRefreshTokenKeepsItsScope"},
	},
	{
		name: "codes_after_operator", breaks: "an operator's revocation ends the codes that are not redeemed",
		file: "store/family_list.go", old: "record.UserCodesKey(f.user, f.client)", new: "record.UserCodesKey(f.user, \"x\")",
		in: "./store", tests: []string{"TestRevokeFamily"},
	},
	{
		name: "codes_bounded", breaks: "codes of one user for one client are bounded",
		file: "store/code.go", old: "if !s.grants.allows(c.granted(), now) {", new: "if false {",
		in: "./handlers", tests: []string{"TestGrantsOfAUserTooOften"},
	},
	{
		name: "refresh_scope_kept", breaks: "RFC 6749 §6: a new refresh token has the scope of the old one",
		file: "store/issue.go", old: "parent: parent, scope: f.scope,", new: "parent: parent, scope: accessScope,",
		in: "./store", tests: []string{"TestRotateRefreshScope"},
	},
	{
		name: "refresh_expiry", breaks: "RFC 9700 §4: a refresh token expires after 14 idle days",
		file: "store/refresh.go", old: "expired := !o.now.Before(t.expiresAt)", new: "expired := false",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_absolute_end", breaks: "RFC 9700 §4: an authorization ends after a year",
		file: "store/issue.go", old: "earlier(now.Add(s.lives.RefreshToken), f.expiresAt)", new: "now.Add(s.lives.RefreshToken)",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
}

// Access tokens, and what else is told or done about tokens.
var tokenMutants = []mutant{
	{
		name: "clock_comparison", breaks: "RFC 6750: a token has expired at its exact end",
		file: "store/access.go", old: "!now.Before(t.expiresAt)", new: "now.After(t.expiresAt)",
		in: "./handlers", tests: []string{"TestBearerExpiry"},
	},
	{
		name: "bearer_of_revoked_family", breaks: "RFC 6750: a revoked token is refused from the next request on",
		file: "store/access.go", old: "!f.revokedAt.IsZero() || !now.Before(f.expiresAt)", new: "!now.Before(f.expiresAt)",
		in: "./handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "user_generation", breaks: "RFC 9700 §4: a new password ends the user's tokens",
		file: "store/family.go", old: "!p.user.DisabledAt.IsZero() || p.user.Generation != l.userGeneration", new: "!p.user.DisabledAt.IsZero()",
		in: "./handlers", tests: []string{"TestEndedPartiesLoseTheirTokens"},
	},
	{
		name: "client_generation", breaks: "enabling a client revives no token",
		file: "store/family.go", old: "!p.client.DisabledAt.IsZero() || p.client.Generation != l.clientGeneration", new: "!p.client.DisabledAt.IsZero()",
		in: "./handlers", tests: []string{"TestEndedPartiesLoseTheirTokens"},
	},
	{
		name: "scope_of_the_token", breaks: "RFC 6750: a token permits only its scope",
		file: "store/access.go", old: "return p.Scope.Covers(need) && p.narrowed.Covers(need)", new: "return p.narrowed.Covers(need)",
		in: "./handlers", tests: []string{"TestBearerScope"},
	},
	{
		name: "scope_of_a_narrowed_client", breaks: "RFC 6750: a client narrowed later is limited at once",
		file: "store/access.go", old: "return p.Scope.Covers(need) && p.narrowed.Covers(need)", new: "return p.Scope.Covers(need)",
		in: "./handlers", tests: []string{"TestBearerOfANarrowedClient"},
	},
	{
		name: "revoke_others_refresh", breaks: "RFC 7009: a client cannot revoke another's refresh token",
		file: "store/revoke.go", old: "if f.client != c.ID || ", new: "if ",
		in: "./handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "revoke_others_access", breaks: "RFC 7009: a client cannot revoke another's access token",
		file: "store/revoke.go", old: "if t.client != c.ID || ", new: "if ",
		in: "./handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "revoke_takes_the_family", breaks: "RFC 7009: a revoked refresh token revokes its family",
		file: "store/revoke.go", old: "return nil\n\t}\n\tif err := revokeFamily(tx, f, now, ReasonRevokedByClient)", new: "return nil\n\t}\n\tif err := error(nil)",
		in: "./handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "client_tokens_follow_to_another_account", breaks: "a change of the account for which a client acts ends its tokens",
		file: "store/client.go", old: "c.Generation++ // its tokens act for the account of before", new: "",
		in: "./handlers", tests: []string{"TestClientCredentialsEnds"},
	},
	{
		name: "released_client_keeps_tokens", breaks: "the end of an account ends the tokens of clients that act for it",
		file: "store/account.go", old: "c.Account = \"\"\n\t\t\t\t\tc.Generation++", new: "c.Account = \"\"",
		in: "./handlers", tests: []string{"TestClientCredentialsEnds"},
	},
	{
		name: "client_credentials_without_an_account", breaks: "a client without an account is refused when it asks for tokens of its own",
		file: "store/issue.go", old: `c.Public || c.Account == "" || !c.Allows(GrantClientCredentials)`, new: "c.Public || !c.Allows(GrantClientCredentials)",
		in: "./handlers", tests: []string{"TestClientCredentialsRefused"},
	},
	{
		name: "introspect_others_access", breaks: "RFC 7662: a client learns only of its own access tokens",
		file: "store/introspect.go", old: "if p.ClientID != c.ID && !c.Introspect {", new: "if false {",
		in: "./handlers", tests: []string{"TestIntrospectWhose"},
	},
	{
		name: "resource_after_the_token", breaks: "a change needs a token that lives when its body has arrived",
		file: "handlers/resources.go", old: "s.aliveToken(r, store.ScopeResourcesWrite)()", new: "aliveAlways()",
		in: "./handlers", tests: []string{"TestResourceChangeAfterTheTokenEnded"},
	},
	{
		name: "revoked_push", breaks: "a leaked token does not outlive its revocation as a push",
		file: "store/family_list.go", old: "EndBonds(ctx, shown.ClientID, ", new: "EndBonds(ctx, \"none\", ",
		in: "./store", tests: []string{"TestRevokeFamily"},
	},
	{
		name: "introspect_others_refresh", breaks: "RFC 7662: a client learns only of its own refresh tokens",
		file: "store/introspect.go", old: "!alive || f.client != c.ID && !c.Introspect", new: "!alive",
		in: "./handlers", tests: []string{"TestIntrospectWhose"},
	},
	{
		name: "introspect_by_public_client", breaks: "RFC 7662 §2.1: the caller must authenticate",
		file: "handlers/introspect.go", old: "if client.Public {", new: "if false {",
		in: "./handlers", tests: []string{"TestIntrospect", "TestIntrospectWhose", "TestIntrospectDead"},
	},
	{
		name: "granted_to_another_client", breaks: "RFC 9700 §4: revoking one client's access keeps the others'",
		file: "store/granted.go", old: "return f.client != clientID }", new: "return false }",
		in: "./store", tests: []string{"TestRevokeGranted"},
	},
}

// Clients: what they prove and what they may do.
var clientMutants = []mutant{
	{
		name: "client_without_secret", breaks: "only a public client has no secret",
		file: "store/client_secret.go", old: "if c.Public && presented == \"\" {", new: "if presented == \"\" {",
		in: "./store", tests: []string{"TestAuthenticateClient"},
	},
	{
		name: "client_disabled", breaks: "a disabled client is refused",
		file: "store/client_secret.go", old: "proved == 0 || !c.DisabledAt.IsZero() {", new: "proved == 0 {",
		in: "./store", tests: []string{"TestAuthenticateClient"},
	},
	{
		name: "client_scope", breaks: "a client asks for no more than it may",
		file: "store/client.go", old: "return asked, c.Scope.Covers(asked)", new: "return asked, true",
		in: "./handlers", tests: []string{"TestRefreshTokenKeepsItsScope"},
	},
	{
		name: "client_grants", breaks: "RFC 6749 §5.2: a grant that is switched off is refused",
		file: "handlers/token.go", old: "if !client.Allows(name) {", new: "if false {",
		in: "./handlers", tests: []string{"TestTokenGrants"},
	},
	{
		name: "client_proves_itself_twice", breaks: "RFC 6749 §2.3: credentials in both header and body are refused",
		file: "handlers/clientauth.go", old: "if p.has(\"client_secret\") {", new: "if false {",
		in: "./handlers", tests: []string{"TestTokenClientAuthentication"},
	},
	{
		name: "client_challenge", breaks: "RFC 6749 §5.2: no challenge where Basic was not tried",
		file: "handlers/errors.go", old: "if basic {", new: "if true {",
		in: "./handlers", tests: []string{"TestTokenClientAuthentication"},
	},
	{
		name: "public_client_without_pkce", breaks: "RFC 7636: a public client must send a challenge",
		file: "handlers/authorize.go", old: "case a.challenge == \"\" && a.client.Public:", new: "case false:",
		in: "./handlers", tests: []string{"TestAuthorizeRefusals"},
	},
	{
		name: "pkce_plain", breaks: "RFC 7636: S256 and nothing else",
		file: "handlers/authorize.go", old: "case method != \"S256\":", new: "case method != \"S256\" && method != \"plain\":",
		in: "./handlers", tests: []string{"TestAuthorizeRefusals"},
	},
}

// The owner's account leads every key that it owns.
var keyMutants = []mutant{
	{
		name: "owner_in_log_key", breaks: "another owner's event cannot be named and is in no list",
		file: "store/eventlog/segment.go", old: "start[:segmentSize]...).Str(owner), tag)", new: "start[:segmentSize]...).Str(\"\"), tag)",
		in: "./store/eventlog", tests: []string{"TestListEventsKeepsOwnersApart", "FuzzKeysOfLog"},
	},
	{
		name: "segment_within_a_millisecond", breaks: "a position belongs to exactly one segment of the log",
		file: "store/eventlog/segment.go", old: "h.recorded >= segmentEvents && p.Millis() > h.last.Millis()", new: "h.recorded >= segmentEvents",
		in: "./store/eventlog", tests: []string{"TestASegmentBegins"},
	},
	{
		name: "segments_out_of_order", breaks: "pages continue across segments in the requested order",
		file: "store/eventlog/segment.go", old: "i = last - n", new: "i = first + n",
		in: "./store/eventlog", tests: []string{"TestSegments"},
	},
	{
		name: "events_go_before_their_copies", breaks: "an erasure removes every copy of an event",
		file: "store/account.go", old: "[]byte{eventlog.ListByType, eventlog.ListByResource, eventlog.ListAll}", new: "[]byte{eventlog.ListAll, eventlog.ListByType, eventlog.ListByResource}",
		in: "./store/eventlog", tests: []string{"TestDeletionBesideRetention"},
	},
	{
		name: "segment_of_the_head_is_not_checked", breaks: "an event in a wrong segment is damage",
		file: "store/eventlog/verify.go", old: "(h.Segments.of(ends.first) != in || h.Segments.of(ends.last) != in) && !l.erasing", new: "h.Segments.of(ends.first) != in && false",
		in: "./store/eventlog", tests: []string{"TestMisplacedSegment"},
	},
	{
		name: "owner_in_foreign_key", breaks: "a foreign id belongs to its owner only",
		file: "store/record/keys.go", old: "NewKey(TagEventForeign).Str(owner)", new: "NewKey(TagEventForeign).Str(\"\")",
		in: "./handlers", tests: []string{"TestFindEvent", "TestListEventsWithAnothersCursor", "TestListEventsKeepsKeysApart"},
	},
	{
		name: "owner_in_resource_key", breaks: "a resource belongs to its owner only",
		file: "store/record/keys.go", old: "NewKey(TagResource).Str(owner)", new: "NewKey(TagResource).Str(\"\")",
		in: "./handlers", tests: []string{"TestResourceLife", "TestResourceAnswers", "TestListResources"},
	},
	{
		name: "key_parts_end", breaks: "no text reaches into its neighbour's range",
		file: "store/record/keys.go", old: "return append(append(k, text...), 0)", new: "return append(k, text...)",
		in: "./store/record", tests: []string{"FuzzKeysOfTexts"},
	},
}
