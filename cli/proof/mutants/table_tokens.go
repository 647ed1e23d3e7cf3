package main

// Refresh tokens: the table of docs/decisions.md.
var refreshMutants = []mutant{
	{
		name: "refresh_client", breaks: "oauth row 45: a refresh token is good for its own client alone",
		file: "store/refresh.go", old: "o.family.client != r.Client.ID", new: "false",
		in: "./store", tests: []string{"TestRotateRefreshByAnotherClient"},
	},
	{
		name: "refresh_client_before_reuse", breaks: "attack 14: another client's replay never hurts a family",
		file: "store/refresh.go", old: "o.family.client != r.Client.ID", new: "o.family.client != r.Client.ID && t.spentAt.IsZero()",
		in: "./store", tests: []string{"TestRotateRefreshByAnotherClient"},
	},
	{
		name: "refresh_replay_revokes", breaks: "RFC 9700 §4.14.2: a stolen token ends its family",
		file: "store/refresh.go", old: "revokeFamily(o.tx, o.family, o.now, reason)", new: "error(nil)",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_of_revoked_family", breaks: "oauth row 48: what is revoked stays so",
		file: "store/refresh.go", old: "!o.family.revokedAt.IsZero()", new: "false",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_retired", breaks: "oauth row 48: a token that was retired unseen can only be a stolen one",
		file: "store/refresh.go", old: "case !t.retiredAt.IsZero():", new: "case false:",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_successor_rotated", breaks: "attack 13: a replay after the successor was rotated revokes at any age",
		file: "store/refresh.go", old: "case t.successorRotated:", new: "case false:",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_confirmation_committed", breaks: "oauth row 48: a pair that was used makes its parent's repeat a theft",
		file: "store/refresh.go", old: "case t.confirmed || o.s.marks.isConfirming(o.s.successors(o.token, t.nonce).access.Hash()):", new: "case o.s.marks.isConfirming(o.s.successors(o.token, t.nonce).access.Hash()):",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_confirmation_under_way", breaks: "oauth row 48: a use counts before its note is written",
		file: "store/refresh.go", old: "case t.confirmed || o.s.marks.isConfirming(o.s.successors(o.token, t.nonce).access.Hash()):", new: "case t.confirmed:",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_confirmation_mark", breaks: "oauth row 48: a use of the pair is written down",
		file: "store/marks.go", old: "spent.confirmed = true", new: "spent.confirmed = false",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_lost_access_dies", breaks: "oauth row 48: the access token that nobody saw dies",
		file: "store/refresh.go", old: "o.tx.Delete(accessTokenKey(lost.access.Hash()))", new: "error(nil)",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_grace_by_the_clock", breaks: "attack 97: a clock set back lengthens no grace",
		file: "store/issue.go", old: "a.Sub(b).Abs() <= span", new: "a.Sub(b) <= span",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_scope_widened", breaks: "attack 15: RFC 6749 §6, no more than was granted",
		file: "store/refresh.go", old: "if !t.scope.Covers(o.asked) {", new: "if false {",
		in: "./store", tests: []string{"TestRotateRefreshScope"},
	},
	{
		name: "refresh_scope_kept", breaks: "oauth row 47: a new refresh token has the scope of the old one",
		file: "store/issue.go", old: "parent: parent, scope: f.scope,", new: "parent: parent, scope: accessScope,",
		in: "./store", tests: []string{"TestRotateRefreshScope"},
	},
	{
		name: "refresh_expiry", breaks: "oauth row 49: a refresh token idle for 14 days is dead",
		file: "store/refresh.go", old: "expired := !o.now.Before(t.expiresAt)", new: "expired := false",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
	{
		name: "refresh_absolute_end", breaks: "oauth row 49: an authorization ends after a year",
		file: "store/issue.go", old: "earlier(now.Add(s.lives.RefreshToken), f.expiresAt)", new: "now.Add(s.lives.RefreshToken)",
		in: "./store", tests: []string{"TestRotateRefresh"},
	},
}

// Access tokens, and what else is told or done about tokens.
var tokenMutants = []mutant{
	{
		name: "clock_comparison", breaks: "oauth row 107: a token is dead at its very end",
		file: "store/access.go", old: "!now.Before(t.expiresAt)", new: "now.After(t.expiresAt)",
		in: "./handlers", tests: []string{"TestBearerExpiry"},
	},
	{
		name: "bearer_of_revoked_family", breaks: "oauth row 101: a revoked token is dead at the next request",
		file: "store/access.go", old: "!f.revokedAt.IsZero() || !now.Before(f.expiresAt)", new: "!now.Before(f.expiresAt)",
		in: "./handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "user_generation", breaks: "oauth row 51: a new password ends the user's tokens",
		file: "store/family.go", old: "!p.user.DisabledAt.IsZero() || p.user.Generation != l.userGeneration", new: "!p.user.DisabledAt.IsZero()",
		in: "./handlers", tests: []string{"TestEndedPartiesLoseTheirTokens"},
	},
	{
		name: "client_generation", breaks: "attack 77: enabling a client revives no token",
		file: "store/family.go", old: "!p.client.DisabledAt.IsZero() || p.client.Generation != l.clientGeneration", new: "!p.client.DisabledAt.IsZero()",
		in: "./handlers", tests: []string{"TestEndedPartiesLoseTheirTokens"},
	},
	{
		name: "scope_of_the_token", breaks: "oauth row 105: a token gives what its scope names",
		file: "store/access.go", old: "return p.Scope.Covers(need) && p.narrowed.Covers(need)", new: "return p.narrowed.Covers(need)",
		in: "./handlers", tests: []string{"TestBearerScope"},
	},
	{
		name: "scope_of_a_narrowed_client", breaks: "oauth row 105: a client narrowed since is held to it",
		file: "store/access.go", old: "return p.Scope.Covers(need) && p.narrowed.Covers(need)", new: "return p.Scope.Covers(need)",
		in: "./handlers", tests: []string{"TestBearerOfANarrowedClient"},
	},
	{
		name: "revoke_others_refresh", breaks: "oauth row 112: nobody revokes another client's refresh token",
		file: "store/revoke.go", old: "if f.client != c.ID || ", new: "if ",
		in: "./handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "revoke_others_access", breaks: "oauth row 112: nobody revokes another client's access token",
		file: "store/revoke.go", old: "if t.client != c.ID || ", new: "if ",
		in: "./handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "revoke_takes_the_family", breaks: "oauth row 109: a revoked refresh token takes its family along",
		file: "store/revoke.go", old: "revokeFamily(tx, f, now, ReasonRevokedByClient)", new: "error(nil)",
		in: "./handlers", tests: []string{"TestRevoke"},
	},
	{
		name: "introspect_others_access", breaks: "oauth row 118: a client learns of its own access tokens alone",
		file: "store/introspect.go", old: "if p.ClientID != c.ID && !c.Introspect {", new: "if false {",
		in: "./handlers", tests: []string{"TestIntrospectWhose"},
	},
	{
		name: "introspect_others_refresh", breaks: "oauth row 118: a client learns of its own refresh tokens alone",
		file: "store/introspect.go", old: "!alive || f.client != c.ID && !c.Introspect", new: "!alive",
		in: "./handlers", tests: []string{"TestIntrospectWhose"},
	},
	{
		name: "introspect_by_public_client", breaks: "oauth row 116: RFC 7662 §2.1, the caller must have proved who it is",
		file: "handlers/introspect.go", old: "if client.Public {", new: "if false {",
		in: "./handlers", tests: []string{"TestIntrospect", "TestIntrospectWhose", "TestIntrospectDead"},
	},
	{
		name: "granted_to_another_client", breaks: "oauth row 51: to revoke one client's access leaves the others'",
		file: "store/granted.go", old: "return f.client != clientID }", new: "return false }",
		in: "./store", tests: []string{"TestRevokeGranted"},
	},
}

// Clients: what they prove and what they may do.
var clientMutants = []mutant{
	{
		name: "client_without_secret", breaks: "oauth decision 15: only a public client has no secret",
		file: "store/client_secret.go", old: "if c.Public && presented == \"\" {", new: "if presented == \"\" {",
		in: "./store", tests: []string{"TestAuthenticateClient"},
	},
	{
		name: "client_disabled", breaks: "attack 77: a disabled client is refused",
		file: "store/client_secret.go", old: "proved == 0 || !c.DisabledAt.IsZero() {", new: "proved == 0 {",
		in: "./store", tests: []string{"TestAuthenticateClient"},
	},
	{
		name: "client_scope", breaks: "oauth decision 19: a client asks for no more than it may",
		file: "store/client.go", old: "return asked, c.Scope.Covers(asked)", new: "return asked, true",
		in: "./handlers", tests: []string{"TestTokenScope"},
	},
	{
		name: "client_grants", breaks: "oauth row 19, 31: a grant that is switched off is refused",
		file: "handlers/token.go", old: "if !client.Allows(name) {", new: "if false {",
		in: "./handlers", tests: []string{"TestTokenGrants"},
	},
	{
		name: "client_proves_itself_twice", breaks: "oauth row 11: credentials in header and body at once",
		file: "handlers/clientauth.go", old: "if p.has(\"client_secret\") {", new: "if false {",
		in: "./handlers", tests: []string{"TestTokenClientAuthentication"},
	},
	{
		name: "client_challenge", breaks: "oauth row 14: RFC 6749 §5.2, no challenge where Basic was not tried",
		file: "handlers/errors.go", old: "if basic {", new: "if true {",
		in: "./handlers", tests: []string{"TestTokenClientAuthentication"},
	},
	{
		name: "public_client_without_pkce", breaks: "oauth row 76: a public client must send a challenge",
		file: "handlers/authorize.go", old: "case a.challenge == \"\" && a.client.Public:", new: "case false:",
		in: "./handlers", tests: []string{"TestAuthorizeRefusals"},
	},
	{
		name: "pkce_plain", breaks: "oauth row 77: S256 and nothing else",
		file: "handlers/authorize.go", old: "case method != \"S256\":", new: "case method != \"S256\" && method != \"plain\":",
		in: "./handlers", tests: []string{"TestAuthorizeRefusals"},
	},
}

// The owner's account leads every key that it owns.
var keyMutants = []mutant{
	{
		name: "owner_in_log_key", breaks: "attacks 78, 79: another owner's event cannot be named and is in no list",
		file: "store/event_part.go", old: "return append(k, tag).str(owner)", new: "return append(k, tag).str(\"\")",
		in: "./store", tests: []string{"TestListEventsKeepsOwnersApart"},
	},
	{
		name: "owner_in_part_key", breaks: "attacks 78, 79: nor in the later parts of a log",
		file: "store/event_part.go", old: "start[:partSize]...).str(owner), tag)", new: "start[:partSize]...).str(\"\"), tag)",
		in: "./store", tests: []string{"TestListEventsKeepsOwnersApart", "FuzzKeysOfLog"},
	},
	{
		name: "part_within_a_millisecond", breaks: "events 2.2: a place belongs to one part of the log, and is found there",
		file: "store/event_part.go", old: "h.recorded >= partEvents && p.Millis() > h.last.Millis()", new: "h.recorded >= partEvents",
		in: "./store", tests: []string{"TestAPartBegins"},
	},
	{
		name: "parts_out_of_order", breaks: "events 2.2: pages go on from part to part in the order that was asked for",
		file: "store/event_part.go", old: "i = last - n", new: "i = first + n",
		in: "./store", tests: []string{"TestParts"},
	},
	{
		name: "events_go_before_their_copies", breaks: "events 3.3: what is erased is erased everywhere, retention or not",
		file: "store/account.go", old: "[]byte{tagEventType, tagEventResource, tagEvent}", new: "[]byte{tagEvent, tagEventType, tagEventResource}",
		in: "./store", tests: []string{"TestDeletionBesideRetention"},
	},
	{
		name: "part_of_the_head_is_not_checked", breaks: "reliability R14: an event that nobody finds is damage",
		file: "store/verify_log.go", old: "(h.parts.of(ends.first) != in || h.parts.of(ends.last) != in) && !l.erasing", new: "h.parts.of(ends.first) != in && false",
		in: "./store", tests: []string{"TestMisplacedPart"},
	},
	{
		name: "owner_in_foreign_key", breaks: "attack 78: an id given elsewhere is its owner's alone",
		file: "store/keys.go", old: "newKey(tagEventForeign).str(owner)", new: "newKey(tagEventForeign).str(\"\")",
		in: "./handlers", tests: []string{"TestFindEvent", "TestListEventsWithAnothersCursor", "TestListEventsKeepsKeysApart"},
	},
	{
		name: "owner_in_resource_key", breaks: "events 3.1: a resource is its owner's alone",
		file: "store/keys.go", old: "newKey(tagResource).str(owner)", new: "newKey(tagResource).str(\"\")",
		in: "./handlers", tests: []string{"TestResourceLife", "TestResourceAnswers", "TestListResources"},
	},
	{
		name: "key_parts_end", breaks: "attack 81: no text reaches into its neighbour's range",
		file: "store/keys.go", old: "return append(append(k, text...), 0)", new: "return append(k, text...)",
		in: "./store", tests: []string{"FuzzKeysOfTexts"},
	},
}
