package main

// What goes over the wire apart from pages.
var wireMutants = []mutant{
	{
		name: "token_no_store", breaks: "RFC 6749 §5.1: an answer with tokens is not cached",
		file: "handlers/token.go", old: "\"no-store, private\"", new: "\"private\"",
		in: "./handlers", tests: []string{"TestTokenAnswer"},
	},
	{
		name: "secret_in_the_url", breaks: "RFC 6749 §2.3: no secret in the query",
		file: "handlers/token.go", old: "if query.given(name) {", new: "if query.given(name) && name == \"\" {",
		in: "./handlers", tests: []string{"TestTokenSecretsInTheURL"},
	},
	{
		name: "parameter_twice", breaks: "RFC 6749 §3.2: no parameter twice",
		file: "handlers/params.go", old: "\t\tp.repeated[name] = true\n", new: "",
		in: "./handlers", tests: []string{"TestTokenParameters"},
	},
	{
		name: "body_bound", breaks: "RFC 6749 §3.2: a body has at most 64 KiB",
		file: "handlers/params.go", old: "http.MaxBytesReader(w, r.Body, formSizeMax)", new: "r.Body",
		in: "./handlers", tests: []string{"TestTokenBodyEncodings"},
	},
	{
		name: "bearer_scheme_case", breaks: "RFC 6750: the scheme in any case",
		file: "handlers/bearer.go", old: "if !strings.EqualFold(scheme, \"Bearer\") {", new: "if scheme != \"Bearer\" {",
		in: "./handlers", tests: []string{"TestBearer"},
	},
	{
		name: "bearer_in_the_query", breaks: "RFC 6750: a token in both header and query is refused",
		file: "handlers/bearer.go", old: "case len(headers) == 1 && inQuery:", new: "case false:",
		in: "./handlers", tests: []string{"TestBearer"},
	},
	{
		name: "bearer_challenge", breaks: "RFC 6750 §3.1: WWW-Authenticate names the error",
		file: "handlers/errors.go", old: "`Bearer realm=\"tollhouse\", error=\"invalid_token\", error_description=\"`+description+`\"`", new: "`Bearer realm=\"tollhouse\"`",
		in: "./handlers", tests: []string{"TestBearerDeadTokens"},
	},
	{
		name: "cors_origin", breaks: "RFC 9700 §2: only a public client's page reads the token endpoint",
		file: "handlers/cors.go", old: "if s.isPublicClient(r) {", new: "if r.Header.Get(\"Origin\") != \"\" {",
		in: "./handlers", tests: []string{"TestCORSOfTheTokenEndpoint"},
	},
	{
		name: "cors_confidential_client", breaks: "RFC 9700 §2: a confidential client's origin is not allowed",
		file: "store/origin.go", old: "if !c.Public || !c.DisabledAt.IsZero() {", new: "if !c.DisabledAt.IsZero() {",
		in: "./handlers", tests: []string{"TestCORSOfTheTokenEndpoint"},
	},
	{
		name: "trusted_proxies", breaks: "RFC 9700 §4: X-Forwarded-For is trusted from named peers only",
		file: "handlers/proxies.go", old: "if !p.isTrusted(peer) {", new: "if false {",
		in: "./handlers", tests: []string{"TestSource"},
	},
	{
		name: "rightmost_hop", breaks: "the client is the last hop that is not a trusted proxy",
		file: "handlers/proxies.go", old: "if !p.isTrusted(source) {", new: "if i == 0 {",
		in: "./handlers", tests: []string{"TestSource"},
	},
	{
		name: "audit_of_typed_names", breaks: "typed names are not logged",
		file: "handlers/password.go", old: "By: by(ctx), ClientID: a.client, UserID: subjectOf(who)})\n\t\treturn user", new: "By: by(ctx), ClientID: a.client, UserID: subjectOf(who) + a.name})\n\t\treturn user",
		in: "./handlers", tests: []string{"TestLogHoldsNoSecret"},
	},
	{
		name: "audit_of_replay", breaks: "a reuse is audited",
		file: "store/refresh.go", old: "return appendAudit(o.tx, o.family.auditLine(AuditRefreshReuse, reason, o.by), o.now, o.tail)", new: "return nil",
		in: "./handlers", tests: []string{"TestAuditOfTokens"},
	},
}

// What slows guessing down.
var throttleMutants = []mutant{
	{
		name: "throttle", breaks: "RFC 6749 §4.3: failures make the next attempt wait",
		file: "handlers/throttle.go", old: "\tif err != nil || wait > 0 {\n", new: "\tif err != nil || wait > userForgottenAfter {\n",
		in: "./handlers", tests: []string{"TestThrottleOfAUser"},
	},
	{
		name: "throttle_by_user", breaks: "guesses at one name from many addresses are slowed",
		file: "handlers/throttle.go", old: "w.user = f.user.wait(now, f.pending)", new: "f.user.wait(now, f.pending)",
		in: "./handlers", tests: []string{"TestThrottleOfAUser"},
	},
	{
		name: "throttle_by_source", breaks: "guesses at many names from one address are slowed",
		file: "handlers/throttle.go", old: "wait := w.source\n", new: "wait := 0 * w.source\n",
		in: "./handlers", tests: []string{"TestThrottleOfASource"},
	},
	{
		name: "throttle_canonical_name", breaks: "every spelling of a name is one bucket",
		file: "handlers/throttle.go", old: "\t\tname = canonical\n", new: "\t\t_ = canonical\n",
		in: "./handlers", tests: []string{"TestThrottleOfAUser"},
	},
	{
		name: "throttle_ipv6_network", breaks: "an IPv6 source is a /64",
		file: "handlers/throttle.go", old: "bits = sourceBitsIPv6", new: "bits = source.BitLen()",
		in: "./handlers", tests: []string{"TestThrottleOfASource"},
	},
	{
		name: "throttle_of_clients", breaks: "RFC 6749 §4.3: a client that guesses at secrets waits too",
		file: "handlers/password.go", old: "\tif wait > 0 {\n\t\tserved(ctx).Throttled = true\n\t\ts.auditBounded(", new: "\tif wait > deviceLifetime {\n\t\tserved(ctx).Throttled = true\n\t\ts.auditBounded(",
		in: "./handlers", tests: []string{"TestThrottleOfASource", "TestThrottleOfAClient"},
	},
	{
		name: "throttle_shared", breaks: "two servers on one database admit no more guesses than one",
		file: "handlers/throttle.go", old: "if c.Guesses != nil {", new: "if c.Guesses == nil {",
		in: "./handlers", tests: []string{"TestProcessesShareTheThrottle"},
	},
	{
		name: "throttle_without_the_table", breaks: "no password is judged while its failures cannot be counted",
		file: "handlers/password.go", old: "if lost := end(wrong); lost != nil {", new: "if lost := end(wrong); lost != nil && wait > 0 {",
		in: "./handlers", tests: []string{"TestThrottleTable"},
	},
	{
		name: "device_cookie_seal", breaks: "a forged device cookie counts for nothing",
		file: "handlers/password.go", old: "if !ok || json.Unmarshal(plain, &d) != nil {\n\t\treturn \"\"", new: "if !ok || json.Unmarshal(plain, &d) != nil {\n\t\treturn c.Value",
		in: "./handlers", tests: []string{"TestThrottleAndTheOwner"},
	},
	{
		name: "device_cookie_user", breaks: "a device cookie is valid only for its user",
		file: "handlers/password.go", old: "user.Subject() != d.User || user.Generation != d.Generation {", new: "user.Generation != d.Generation {",
		in: "./handlers", tests: []string{"TestThrottleAndTheOwner"},
	},
	{
		name: "hash_queue", breaks: "the queue for password hashes is bounded",
		file: "store/secret/turns.go", old: "len(t.waiting) > hashQueueMax", new: "len(t.waiting) > hashQueueMax<<20",
		in: "./store/secret", tests: []string{"TestHasherQueueIsBounded"},
	},
	{
		name: "hash_turns", breaks: "one user's connections do not hold up every other sign-in",
		file: "store/secret/turns.go", old: "slices.MinFunc(t.waiting, byRound)", new: "t.waiting[0]",
		in: "./store/secret", tests: []string{"TestTurnsAreShared"},
	},
}
