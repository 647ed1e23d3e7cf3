package main

// The test that reads the sources for how secrets are compared: no test of what
// the code does can see how long it takes.
var comparisons = []string{"TestSecretsAreComparedInConstantTime"}

// How secrets are made, kept, compared and shown.
var secretMutants = []mutant{
	{
		name: "constant_time_text", breaks: "texts that prove something are compared in constant time",
		file: "store/secret/secret.go",
		old:  "func EqualText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }",
		new:  "func EqualText(a, b string) bool { return a == b }",
		in:   "./store/secret", tests: comparisons,
	},
	{
		name: "constant_time_hash", breaks: "hashes of secrets are compared in constant time",
		file: "store/secret/secret.go",
		old:  "subtle.ConstantTimeCompare(h[:], other[:]) == 1", new: "h == other",
		in: "./store/secret", tests: comparisons,
	},
	{
		name: "constant_time_client_secret", breaks: "a client's secret is compared in constant time",
		file: "store/client_secret.go", old: "if hash.Equal(kept) {", new: "if hash == kept {",
		in: "./store/secret", tests: comparisons,
	},
	{
		name: "constant_time_verifier", breaks: "RFC 7636 §4.6: a code verifier is compared in constant time",
		file: "store/code.go", old: "!secret.EqualText(secret.S256(verifier), c.challenge)", new: "secret.S256(verifier) != c.challenge",
		in: "./store/secret", tests: comparisons,
	},
	{
		name: "constant_time_form_token", breaks: "a form's token is compared in constant time",
		file: "handlers/cookies.go", old: "secret.EqualText(token, s.key.MAC(label, value))", new: "token == s.key.MAC(label, value)",
		in: "./store/secret", tests: comparisons,
	},
	{
		name: "secret_hashing", breaks: "only the SHA-256 of a secret is stored",
		file: "store/secret/secret.go",
		old:  "func HashOf(text string) Hash { return sha256.Sum256([]byte(text)) }",
		new:  "func HashOf(text string) (h Hash) { copy(h[:], text); return h }",
		in:   "./store", tests: []string{"TestNothingKeptIsASecret"},
	},
	{
		name: "password_hashing_cost", breaks: "a password costs two passes of Argon2id",
		file: "store/secret/password.go", old: "argonPasses    = 2", new: "argonPasses    = 1",
		in: "./store/secret", tests: []string{"TestHasher"},
	},
	{
		name: "password_dummy_hash", breaks: "RFC 6749 §4.3: an unknown user costs a hash too",
		file: "store/secret/password.go", old: "\tp, known := h.cost, false\n",
		new: "\tif stored == \"\" {\n\t\treturn false, false, nil\n\t}\n\tp, known := h.cost, false\n",
		in:  "./store/secret", tests: []string{"TestUnknownUserCostsAHash"},
	},
	{
		name: "password_of_unknown_user", breaks: "a check of an unknown user costs a hash too",
		file: "store/user.go", old: "\tmatch, renew, err := s.hasher.Verify(",
		new: "\tif err != nil {\n\t\treturn User{}, fmt.Errorf(\"authenticate user: %w\", record.ErrMismatch)\n\t}\n\tmatch, renew, err := s.hasher.Verify(",
		in:  "./store", tests: []string{"TestAuthenticateUserCostsAHashForEveryName"},
	},
	{
		name: "password_of_disabled_user", breaks: "RFC 6749 §4.3: a disabled user is refused",
		file: "store/user.go", old: "if !match || !u.DisabledAt.IsZero() {", new: "if !match {",
		in: "./store", tests: []string{"TestAuthenticateUser"},
	},
	{
		name: "token_kinds", breaks: "a token of one kind never passes for another",
		file: "store/secret/secret.go", old: "len(text) != tokenSize || text[:kindSize] != string(kind)", new: "len(text) != tokenSize",
		in: "./store/secret", tests: []string{"TestToken"},
	},
	{
		name: "token_checksum", breaks: "every edit of one character is refused",
		file: "store/secret/secret.go", old: "if string(sum) != text {", new: "if len(sum) != len(text) {",
		in: "./store/secret", tests: []string{"TestToken"},
	},
	{
		name: "token_redaction", breaks: "a token cannot print itself",
		file: "store/secret/secret.go",
		old:  "func (Token) LogValue() slog.Value         { return slog.StringValue(redacted) }",
		new:  "func (t Token) LogValue() slog.Value       { return slog.StringValue(t.Reveal()) }",
		in:   "./store/secret", tests: []string{"TestToken"},
	},
	{
		name: "sealing_labels", breaks: "a value sealed for one purpose opens for no other",
		file: "store/secret/key.go", old: "aes.NewCipher(k.subKey(label))", new: "aes.NewCipher(k.subKey(\"\"))",
		in: "./store/secret", tests: []string{"TestKey"},
	},
}

// Authorization codes and the tickets that they come from.
var codeMutants = []mutant{
	{
		name: "code_client", breaks: "RFC 6749 §4.1: a code is valid only for its own client",
		file: "store/code.go", old: "if c.client != r.Client.ID {", new: "if false {",
		in: "./store", tests: []string{"TestRedeemCode"},
	},
	{
		name: "code_redirect_uri", breaks: "RFC 6749 §4.1.3: the redirect URI equals that of the authorization request",
		file: "store/code.go", old: "!secret.EqualText(c.redirectURI, r.RedirectURI)", new: "r.RedirectURI == \"\"",
		in: "./store", tests: []string{"TestRedeemCode"},
	},
	{
		name: "pkce_downgrade", breaks: "RFC 9700 §4.8.2: a verifier without a challenge is refused",
		file: "store/code.go",
		old:  "\tif (c.challenge == \"\") != (verifier == \"\") {\n\t\treturn errOtherVerifier\n\t}\n\tif verifier == \"\" {",
		new:  "\tif c.challenge != \"\" && verifier == \"\" {\n\t\treturn errOtherVerifier\n\t}\n\tif c.challenge == \"\" {",
		in:   "./store", tests: []string{"TestRedeemCode"},
	},
	{
		name: "pkce_verifier_left_out", breaks: "RFC 7636: a challenge requires its verifier",
		file: "store/code.go", old: "if (c.challenge == \"\") != (verifier == \"\") {", new: "if c.challenge == \"\" && verifier != \"\" {",
		in: "./store", tests: []string{"TestRedeemCode"},
	},
	{
		name: "pkce_verifier_form", breaks: "RFC 7636 §4.1: 43 to 128 unreserved characters",
		file: "store/code.go", old: "if !isVerifier(verifier) || ", new: "if ",
		in: "./handlers", tests: []string{"TestTokenCode"},
	},
	{
		name: "code_expiry", breaks: "RFC 6749 §4.1: a code lives for a minute",
		file: "store/code.go", old: "if !now.Before(c.expiresAt) {\n\t\t\treturn record.ErrExpired\n", new: "if false {\n\t\t\treturn record.ErrExpired\n",
		in: "./store", tests: []string{"TestRedeemCode"},
	},
	{
		name: "code_single_use", breaks: "RFC 6749 §4.1.2: a code is used once",
		file: "store/code.go", old: "if !c.usedAt.IsZero() {", new: "if false {",
		in: "./store", tests: []string{"TestRedeemCode"},
	},
	{
		name: "code_replay_revokes", breaks: "RFC 6749 §4.1: a replay revokes the tokens of the first use",
		file: "store/code.go", old: "revokeFamily(tx, f, now, ReasonCodeReplayed)", new: "error(nil)",
		in: "./store", tests: []string{"TestRedeemCode"},
	},
	{
		name: "code_double_fire_without_pkce", breaks: "only PKCE makes a repeat harmless",
		file: "store/code.go", old: "c.challenge != \"\" && near(now, c.usedAt, doubleFire)", new: "near(now, c.usedAt, doubleFire)",
		in: "./store", tests: []string{"TestRedeemCode"},
	},
	{
		name: "ticket_decided_once", breaks: "a consent screen is decided once",
		file: "store/code.go", old: "decide(tx, c.Ticket, now, c.TicketEnds); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif err := remember", new: "error(nil); err != nil {\n\t\t\treturn err\n\t\t}\n\t\tif err := remember",
		in: "./store", tests: []string{"TestAllow"},
	},
}
