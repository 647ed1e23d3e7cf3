package main

// Secrets and passwords.
var secretMutants = []mutant{
	{
		name: "constant_time_text", breaks: "texts that prove something are compared in constant time",
		under: "store/secret", old: "subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1", new: "a == b",
		tests: []string{"TestSecretsAreComparedInConstantTime"},
	},
	{
		name: "constant_time_client_secret", breaks: "a client's secret is compared in constant time",
		under: "store", old: "hash.Equal(kept)", new: "hash == kept",
		tests: []string{"TestSecretsAreComparedInConstantTime"},
	},
	{
		name: "constant_time_verifier", breaks: "RFC 7636 §4.6: a code verifier is compared in constant time",
		under: "store", old: "!secret.EqualText(secret.S256(verifier), c.challenge)", new: "secret.S256(verifier) != c.challenge",
		tests: []string{"TestSecretsAreComparedInConstantTime"},
	},
	{
		name: "secret_hashing", breaks: "only the SHA-256 of a secret is stored",
		under: "store/secret", old: "return sha256.Sum256([]byte(text))", new: "var h Hash; copy(h[:], text); return h",
		in: "store", tests: []string{"TestNothingKeptIsASecret"},
	},
	{
		name: "password_dummy_hash", breaks: "RFC 6749 §4.3: an unknown user costs a hash too",
		under: "store/secret", old: "k := kept{inner: h.newHash()}", new: `if stored == "" { return Verdict{}, nil }; k := kept{inner: h.newHash()}`,
		tests: []string{"TestUnknownUserCostsAHash"},
	},
	{
		name: "password_of_disabled_user", breaks: "RFC 6749 §4.3: a disabled user is refused",
		under: "store", old: "!verdict.Match || !u.MaySignIn()", new: "!verdict.Match",
		tests: []string{"TestAuthenticateUser"},
	},
	{
		name: "password_cut_by_bcrypt", breaks: "what bcrypt did not read of a password does not get into a new hash",
		under: "store/secret", old: "v.Renew = !cut && ", new: "_ = cut; v.Renew = ",
		tests: []string{"TestHashesOfOtherSystems"},
	},
	{
		name: "password_refused_at_once", breaks: "no refusal tells whose hash was imported",
		under: "store", old: "verdict.Refuse(ctx, refusal)", new: "",
		tests: []string{"TestRefusalsOfImportedUsers"},
	},
	{
		name: "token_kinds", breaks: "a token of one kind never passes for another",
		under: "store/secret", old: " || text[:kindSize] != string(kind)", new: "",
		tests: []string{"TestToken"},
	},
	{
		name: "token_redaction", breaks: "a token cannot print itself",
		under: "store/secret", old: "(Token) LogValue() slog.Value { return slog.StringValue(redacted) }", new: "(t Token) LogValue() slog.Value { return slog.StringValue(t.Reveal()) }",
		tests: []string{"TestToken"},
	},
	{
		name: "sealing_labels", breaks: "a value sealed for one purpose opens for no other",
		under: "store/secret", old: "aes.NewCipher(k.subKey(label))", new: `aes.NewCipher(k.subKey(""))`,
		tests: []string{"TestKey"},
	},
	{
		name: "code_derived_by_the_key", breaks: "a code cannot be derived without the server key",
		under: "store/secret", old: `k.subKey("authorization code")`, new: `[]byte("authorization code")`,
		in: "store", tests: []string{"TestAllow"},
	},
	{
		name: "client_without_secret", breaks: "only a public client has no secret",
		under: "store", old: `c.Public && presented == ""`, new: `presented == ""`,
		tests: []string{"TestAuthenticateClient"},
	},
	{
		name: "secret_in_the_url", breaks: "RFC 6749 §2.3: no secret in the query",
		under: "handlers", old: "query.given(name)", new: "false && query.given(name)",
		tests: []string{"TestTokenSecretsInTheURL"},
	},
	{
		name: "webhook_secret_sealed", breaks: "a stolen store has no webhook secret",
		under: "store/webhook", old: "w.Key.Seal(sealLabel(id), []byte(token.Reveal()))", new: "token.Reveal()",
		tests: []string{"TestSecrets"},
	},
	{
		name: "user_code_once", breaks: "a code sets a password once",
		under: "store", fn: "RedeemUserCode", old: "u.setPassword(hash)", new: "u.password = hash",
		tests: []string{"TestUserCode"},
	},
}
