package main

// Authorization codes.
var codeMutants = []mutant{
	{
		name: "code_client", breaks: "RFC 6749 §4.1: a code is valid only for its own client",
		under: "store", old: "c.client != r.Client.ID", new: "false",
		tests: []string{"TestRedeemCode"},
	},
	{
		name: "code_redirect_uri", breaks: "RFC 6749 §4.1.3: the redirect URI equals that of the authorization request",
		under: "store", old: "!secret.EqualText(c.redirectURI, r.RedirectURI)", new: "false",
		tests: []string{"TestRedeemCode"},
	},
	{
		name: "pkce_downgrade", breaks: "RFC 9700 §4.8.2: a verifier without a challenge is refused",
		under: "store", old: `(c.challenge == "") != (verifier == "")`, new: `c.challenge == "" && verifier != "" { return nil }; if verifier == "" && c.challenge != ""`,
		tests: []string{"TestRedeemCode"},
	},
	{
		name: "pkce_plain", breaks: "RFC 7636: S256 and nothing else",
		under: "handlers", old: `method != "S256"`, new: `method != "S256" && method != "plain"`,
		tests: []string{"TestAuthorizeRefusals"},
	},
	{
		name: "code_expiry", breaks: "RFC 6749 §4.1: a code lives for a minute",
		under: "store", fn: "RedeemCode", old: "!now.Before(c.expiresAt)", new: "false",
		tests: []string{"TestRedeemCode"},
	},
	{
		name: "code_single_use", breaks: "RFC 6749 §4.1.2: a code is used once",
		under: "store", fn: "RedeemCode", old: "!c.usedAt.IsZero()", new: "false",
		tests: []string{"TestRedeemCode"},
	},
	{
		name: "code_replay_revokes", breaks: "RFC 6749 §4.1: a replay revokes the tokens of the first use",
		under: "store", old: "revokeFamily(tx, n, f, now, ReasonCodeReplayed)", new: "error(nil)",
		tests: []string{"TestRedeemCode"},
	},
	{
		name: "ticket_decided_once", breaks: "a consent screen is decided once",
		under: "store", old: "earlier.answer != d.answer", new: "false",
		tests: []string{"TestAllow"},
	},
	{
		name: "code_of_a_ticket_once", breaks: "a redeemed code does not come back",
		under: "store", old: "!stored.usedAt.IsZero() || ", new: "",
		tests: []string{"TestAllow"},
	},
}
