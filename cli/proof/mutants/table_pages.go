package main

// What pages carry, and the forms on them.
var pageMutants = []mutant{
	{
		name: "csrf_origin", breaks: "RFC 6749 §10: a form that another site posted is refused",
		file: "handlers/handle.go", old: "err := s.checkOrigin(r)", new: "var err error",
		in: "./handlers", tests: []string{"TestLoginForgery", "TestConsentForgery"},
	},
	{
		name: "desk_gate", breaks: "only operators reach the desk",
		file: "handlers/desk.go", old: "if !session.User.Operator { // who", new: "if false { // who",
		in: "./handlers", tests: []string{"TestDeskGate"},
	},
	{
		name: "desk_confirm", breaks: "a change at the desk needs a fresh password",
		file: "handlers/desk_form.go", old: "if !v.isFresh() {\n\t\tif proceed", new: "if false {\n\t\tif proceed",
		in: "./handlers", tests: []string{"TestDeskConfirms"},
	},
	{
		name: "desk_form", breaks: "a form of the desk belongs to its session",
		file: "handlers/desk_form.go", old: "if !secret.EqualText(v.form.value(\"form_token\"), v.token()) {", new: "if false {",
		in: "./handlers", tests: []string{"TestDeskForgery"},
	},
	{
		name: "desk_former_operator", breaks: "a form of a former operator changes nothing, however late its body",
		file: "handlers/desk_form.go", old: "too.\n\tif v.aliveUnseen() != nil {", new: "too.\n\tif false {",
		in: "./handlers", tests: []string{"TestDeskFormsOfFormerOperators"},
	},
	{
		name: "desk_former_operator_confirms", breaks: "the right password does not bring the role back",
		file: "handlers/desk_form.go", old: "\t\tif v.aliveUnseen() != nil {", new: "\t\tif false {",
		in: "./handlers", tests: []string{"TestDeskFormsOfFormerOperators"},
	},
	{
		name: "desk_once", breaks: "a form of the desk makes something once",
		file: "handlers/desk_kept.go", old: "return entry.onceDone, known && o.now().Sub(entry.at) < onceKeptFor", new: "return entry.onceDone, known && false",
		in: "./handlers", tests: []string{"TestDeskSecretsAreShownOnce"},
	},
	{
		name: "desk_gate_of_one_route", breaks: "only operators reach any address of the desk",
		file: "handlers/desk.go", old: "if !session.User.Operator { // who", new: "if !session.User.Operator && r.URL.Path != \"/desk/audit\" { // who",
		in: "./handlers", tests: []string{"TestDeskGate"},
	},
	{
		name: "desk_gate_with_credentials", breaks: "a request with other credentials does not reach the desk",
		file: "handlers/desk.go", old: "len(r.Header.Values(\"Authorization\")) > 0 || ", new: "",
		in: "./handlers", tests: []string{"TestDeskGate", "TestStartPageLeadsWhereTheDeskAnswers"},
	},
	{
		name: "desk_plain_http", breaks: "over plain http the desk answers on this machine only",
		file: "handlers/desk.go", old: " || !s.isPrivate(r) {", new: " {",
		in: "./handlers", tests: []string{"TestDeskNeedsASafeConnection"},
	},
	{
		name: "desk_behind_unknown_proxy", breaks: "a proxy that is not trusted is in no network",
		file: "handlers/desk.go", old: "	if s.hidesSource(r) {\n", new: "	if false {\n",
		in: "./handlers", tests: []string{"TestDeskFrom"},
	},
	{
		name: "desk_secret_again", breaks: "a secret is shown once",
		file: "handlers/desk_clients.go", old: "return onceDone{\"Open the client\", below(clientsPath, c.ID)}, nil\n\t})\n}\n\n// deskDisableClient", new: "return onceDone{\"Open the client \" + sec.Reveal(), below(clientsPath, c.ID)}, nil\n\t})\n}\n\n// deskDisableClient",
		in: "./handlers", tests: []string{"TestDeskSecretsAreShownOnce"},
	},
	{
		name: "desk_stale_form_of_anybody", breaks: "a form that another site may have made does not come back with a token",
		file: "handlers/desk_form.go", old: "v.r.Header.Get(\"Sec-Fetch-Site\") != \"same-origin\" || ", new: "",
		in: "./handlers", tests: []string{"TestDeskStaleFormsLoseNothing"},
	},
	{
		name: "desk_oneself", breaks: "operators cannot demote or disable themselves at the desk",
		file: "handlers/desk_users.go", old: "if notSelf && v.isSelf(u) {", new: "if false {",
		in: "./handlers", tests: []string{"TestDeskOperatorsKeepTheirOwnRole"},
	},
	{
		name: "desk_tail_of_demoted", breaks: "a demotion ends a live tail",
		file: "handlers/desk_tail.go", old: "if err != nil || !session.User.Operator {", new: "if _ = session; err != nil {",
		in: "./handlers", tests: []string{"TestDeskTail"},
	},
	{
		name: "code_refusals_uncounted", breaks: "refused codes count as refused sign-ins",
		file: "handlers/new_password.go", old: "if outcome != SignInRight {", new: "if false && outcome != SignInRight {",
		in: "./handlers", tests: []string{"TestCodesCountAsSignIns"},
	},
	{
		name: "latest_sign_in", breaks: "the last sign-in outlives the session",
		file: "store/session.go", old: "if err := raiseLatest(tx, record.SignInKey(sn.user), sn.AuthenticatedAt); err != nil {", new: "if err := error(nil); err != nil {",
		in: "./store", tests: []string{"TestLatestSignIn"},
	},
	{
		name: "latest_use_of_deleted_client", breaks: "nothing of a deleted client is left",
		file: "store/client.go", old: ", record.ClientUseKey(id))", new: ")",
		in: "./store", tests: []string{"TestDeleteClientLeavesNothing"},
	},
	{
		name: "csrf_login_form", breaks: "RFC 6749 §10: a sign-in form belongs to its browser",
		file: "handlers/login.go", old: "if !s.checkFormToken(r, loginForm, p.value(\"form_token\")) {", new: "if false {",
		in: "./handlers", tests: []string{"TestLoginForgery"},
	},
	{
		name: "csrf_code_form", breaks: "a form that redeems a code belongs to its browser",
		file: "handlers/new_password.go", old: "if !s.checkFormToken(r, newPasswordForm, p.value(\"form_token\")) {", new: "if false {",
		in: "./handlers", tests: []string{"TestNewPassword"},
	},
	{
		name: "code_ends", breaks: "a new password ends a code",
		file: "store/password.go", old: "u.setPassword(hash)\n\t\tu.Generation++", new: "u.password = hash\n\t\tu.Generation++",
		in: "./store", tests: []string{"TestUserCode"},
	},
	{
		name: "code_once", breaks: "a code sets a password once",
		file: "store/user_code.go", old: "u.setPassword(hash)", new: "u.password = hash",
		in: "./store", tests: []string{"TestUserCode"},
	},
	{
		name: "code_expires", breaks: "a code is good for 24 hours",
		file: "store/user_code.go", old: "if !s.Now().Before(u.code.expiresAt) {", new: "if false {",
		in: "./store", tests: []string{"TestUserCode"},
	},
	{
		name: "first_user_hint", breaks: "the start page shows a command at the machine alone",
		file: "handlers/home.go", old: "if !isAtTheMachine(r) {", new: "if false {",
		in: "./handlers", tests: []string{"TestStartPage"},
	},
	{
		name: "csrf_logout", breaks: "another site cannot sign a user out",
		file: "handlers/login.go", old: "if !secret.EqualText(p.value(\"form_token\"), s.logoutToken(token)) {", new: "if !p.has(\"form_token\") {",
		in: "./handlers", tests: []string{"TestLogout"},
	},
	{
		name: "csrf_account", breaks: "the forms of the account page belong to the sign-in",
		file: "handlers/account.go", old: "if !secret.EqualText(p.value(\"form_token\"), s.accountToken(session.token)) {", new: "if false {",
		in: "./handlers", tests: []string{"TestAccountForgery"},
	},
	{
		name: "consent_of_anybody", breaks: "a decision is bound to the user who was asked",
		file: "handlers/consent.go", old: "sound && !t.belongsTo(s, session)", new: "sound && false",
		in: "./handlers", tests: []string{"TestConsentForgery"},
	},
	{
		name: "consent_of_another_sign_in", breaks: "a decision is bound to its sign-in, not to its user alone",
		file: "handlers/ticket.go", old: "secret.EqualText(t.Session, s.sessionMark(session.token)) && ", new: "",
		in: "./handlers", tests: []string{"TestConsentForgery"},
	},
	{
		name: "consent_left_unanswered", breaks: "a consent screen expires after thirty minutes",
		file: "handlers/consent.go", old: "if !s.store.Now().Before(t.ends(s.store.Lifetimes())) {", new: "if false {",
		in: "./handlers", tests: []string{"TestConsentOverTime"},
	},
	{
		name: "consent_no_more_than_shown", breaks: "a user allows only what was shown",
		file: "handlers/consent.go", old: "if !t.Scope.Covers(a.scope) {", new: "if false {",
		in: "./handlers", tests: []string{"TestConsentHoldsWhatItShowed"},
	},
	{
		name: "form_action", breaks: "RFC 9700 §4: the policy limits where forms may lead",
		file: "handlers/page.go", old: "script-src 'none'; form-action \"+action+", new: "script-src 'none'\"+action[:0]+",
		in: "./handlers", tests: []string{"TestFormAction", "TestHeadersOfEveryAnswer"},
	},
	{
		name: "form_action_by_origin", breaks: "RFC 9700 §4: the policy never names an origin",
		file: "handlers/page.go", old: "return \"'self' https: \" + scheme + \":\"", new: "return \"'self' https: \" + redirectURI",
		in: "./handlers", tests: []string{"TestFormAction"},
	},
	{
		name: "frame_ancestors", breaks: "RFC 9700 §4: no page in a frame",
		file: "handlers/page.go", old: "; frame-ancestors 'none'", new: "",
		in: "./handlers", tests: []string{"TestHeadersOfEveryAnswer"},
	},
	{
		name: "x_frame_options", breaks: "RFC 9700 §4: no page in a frame of an older browser",
		file: "handlers/page.go", old: "\th.Set(\"X-Frame-Options\", \"DENY\")\n", new: "",
		in: "./handlers", tests: []string{"TestHeadersOfEveryAnswer"},
	},
	{
		name: "page_no_store", breaks: "RFC 6749 §3.1: pages are not cached",
		file: "handlers/page.go", old: "h.Set(\"Cache-Control\", \"no-store\")", new: "h.Set(\"Cache-Control\", \"private\")",
		in: "./handlers", tests: []string{"TestHeadersOfEveryAnswer", "TestAuthorize"},
	},
	{
		name: "page_scripts", breaks: "pages run no script",
		file: "handlers/page.go", old: "script-src 'none';", new: "script-src 'unsafe-inline';",
		in: "./handlers", tests: []string{"TestPagePolicy"},
	},
	{
		name: "referrer_policy", breaks: "RFC 9700 §4: pages send no referrer",
		file: "handlers/handle.go", old: "[]string{\"no-referrer\"}", new: "[]string{\"unsafe-url\"}",
		in: "./handlers", tests: []string{"TestHeadersOfEveryAnswer"},
	},
	{
		name: "nosniff", breaks: "no answer is sniffed for another media type",
		file: "handlers/handle.go", old: "\t\th[\"X-Content-Type-Options\"] = headerNosniff\n", new: "",
		in: "./handlers", tests: []string{"TestHeadersOfEveryAnswer"},
	},
}

// Where the browser is sent, and with what.
var redirectMutants = []mutant{
	{
		name: "redirect_exactness", breaks: "RFC 9700 §2.1: redirect URIs match byte for byte",
		file: "store/redirect.go", old: "if registered == asked {", new: "if strings.HasPrefix(asked, registered) {",
		in: "./store", tests: []string{"TestMatchRedirectURIByteForByte"},
	},
	{
		name: "redirect_exact_case", breaks: "RFC 9700 §2.1: redirect URIs match in case",
		file: "store/redirect.go", old: "if registered == asked {", new: "if strings.EqualFold(registered, asked) {",
		in: "./store", tests: []string{"TestMatchRedirectURIByteForByte"},
	},
	{
		name: "redirect_loopback_path", breaks: "RFC 6749 §3.1.2: only the port of a loopback address is free",
		file: "store/redirect.go", old: "return ok && head == askedHead && tail == askedTail", new: "return ok && head == askedHead && tail != \"\" && askedTail != \"\"",
		in: "./store", tests: []string{"TestMatchRedirectURI"},
	},
	{
		name: "redirect_loopback_host", breaks: "RFC 6749 §3.1.2: one loopback name is not another",
		file: "store/redirect.go", old: "return ok && head == askedHead && tail == askedTail", new: "return ok && (head != \"\" || askedHead != \"\") && tail == askedTail",
		in: "./store", tests: []string{"TestMatchRedirectURI"},
	},
	{
		name: "redirect_plain_http", breaks: "RFC 6749 §3.1.2: plain http is for this machine alone",
		file: "store/redirect.go", old: "case u.Scheme == \"http\" && !isLoopback(host) && !fixture:", new: "case false:",
		in: "./store", tests: []string{"TestCheckRedirectURI"},
	},
	{
		name: "redirect_fragment", breaks: "RFC 6749 §3.1.2: a redirect URI has no fragment",
		file: "store/redirect.go", old: "if strings.Contains(uri, \"#\") {", new: "if false {",
		in: "./store", tests: []string{"TestCheckRedirectURI"},
	},
	{
		name: "redirect_unregistered", breaks: "RFC 6749 §3.1.2.4: no redirect to an unregistered URI",
		file: "handlers/authorize.go", old: "if client.RedirectsTo(uri) {", new: "if uri != \"\" {",
		in: "./handlers", tests: []string{"TestAuthorizeUnsoundClient", "TestRedirectURIRefused"},
	},
	{
		name: "redirect_of_disabled_client", breaks: "RFC 6749 §3.1: no redirect for a disabled client",
		file: "handlers/authorize.go", old: "if err == nil && client.DisabledAt.IsZero() {", new: "if err == nil {",
		in: "./handlers", tests: []string{"TestAuthorizeUnsoundClient"},
	},
	{
		name: "redirect_iss", breaks: "RFC 9207 §2: a redirect names the issuer",
		file: "handlers/redirect.go", old: "\tnamesAndValues = append(namesAndValues, \"iss\", s.issuerOf(r))\n", new: "",
		in: "./handlers", tests: []string{"TestAuthorizeIssuer"},
	},
	{
		name: "redirect_state", breaks: "RFC 6749 §4.1: state is returned",
		file: "handlers/redirect.go", old: "if a.state != \"\" {", new: "if false {",
		in: "./handlers", tests: []string{"TestAuthorizeState"},
	},
	{
		name: "redirect_state_encoded", breaks: "RFC 6749 §4.1: state cannot add parameters",
		file: "handlers/redirect.go", old: "b.WriteString(url.QueryEscape(namesAndValues[i+1]))", new: "b.WriteString((&url.URL{Path: namesAndValues[i+1]}).EscapedPath())",
		in: "./handlers", tests: []string{"TestAuthorizeState"},
	},
	{
		name: "redirect_after_post", breaks: "RFC 9700 §4.12: no redirect repeats the POST",
		file: "handlers/redirect.go", old: "s.redirectBack(w, r, a, http.StatusSeeOther, \"code\"", new: "s.redirectBack(w, r, a, http.StatusTemporaryRedirect, \"code\"",
		in: "./handlers", tests: []string{"TestConsent"},
	},
	{
		name: "iss_from_the_host_header", breaks: "a foreign host is refused",
		file: "handlers/host.go", old: "if !s.isOurHost(r.Host) && !s.isHealth(r.URL.Path) {", new: "if false {",
		in: "./handlers", tests: []string{"TestForeignHost"},
	},
	{
		name: "dns_rebinding", breaks: "dev answers to no name that a stranger may own",
		file: "handlers/hosts.go", old: "if host == public || !strings.Contains(host, \".\") {", new: "if true {",
		in: "./handlers", tests: []string{"TestHostsOfDev"},
	},
	{
		name: "issuer_of_another_name", breaks: "RFC 8414 §3.3: in dev the issuer is the address that was asked",
		file: "handlers/hosts.go", old: "return \"http://\" + r.Host\n", new: "return s.issuer\n",
		in: "./handlers", tests: []string{"TestIssuerIsTheAddressThatWasAsked"},
	},
}

// Sign-ins of browsers.
var browserMutants = []mutant{
	{
		name: "session_rotation", breaks: "every sign-in has a new id",
		file: "store/session.go", old: "\ttoken := secret.New(s.random, secret.SessionToken)\n",
		new: "\ttoken := old\n\tif old.IsZero() {\n\t\ttoken = secret.New(s.random, secret.SessionToken)\n\t}\n",
		in:  "./handlers", tests: []string{"TestLogin", "TestSessionCookie", "TestLoginForgery"},
	},
	{
		name: "session_before_ends", breaks: "a sign-in ends the browser's previous one",
		file: "store/session.go", old: "if !old.IsZero() {", new: "if false {",
		in: "./store", tests: []string{"TestSession"},
	},
	{
		name: "session_idle", breaks: "a sign-in ends after twelve idle hours",
		file: "store/session.go", old: "now.Before(sn.SeenAt.Add(s.lives.SessionIdle)) &&", new: "",
		in: "./store", tests: []string{"TestSession"},
	},
	{
		name: "session_generation", breaks: "a new password ends the sign-ins",
		file: "store/session.go", old: "sn.User.DisabledAt.IsZero() && sn.User.Generation == sn.generation", new: "sn.User.DisabledAt.IsZero()",
		in: "./store", tests: []string{"TestSession"},
	},
	{
		name: "cookie_host_prefix", breaks: "no other host can set our cookie",
		file: "handlers/cookies.go", old: "sessionName: \"__Host-tollhouse\"", new: "sessionName: \"tollhouse\"",
		in: "./handlers", tests: []string{"TestSessionCookie"},
	},
	{
		name: "cookie_secure", breaks: "no cookie over plain http",
		file: "handlers/cookies.go", old: "Value: value, Path: \"/\", HttpOnly: true, Secure: j.secure,", new: "Value: value, Path: \"/\", HttpOnly: true,",
		in: "./handlers", tests: []string{"TestSessionCookie"},
	},
	{
		name: "cookie_http_only", breaks: "no script reads a cookie",
		file: "handlers/cookies.go", old: "Value: value, Path: \"/\", HttpOnly: true,", new: "Value: value, Path: \"/\",",
		in: "./handlers", tests: []string{"TestSessionCookie"},
	},
	{
		name: "cookie_same_site", breaks: "no other site's form carries a cookie",
		file: "handlers/cookies.go",
		old:  "Value: value, Path: \"/\", HttpOnly: true, Secure: j.secure, SameSite: http.SameSiteLaxMode})",
		new:  "Value: value, Path: \"/\", HttpOnly: true, Secure: j.secure, SameSite: http.SameSiteNoneMode})",
		in:   "./handlers", tests: []string{"TestSessionCookie"},
	},
	{
		name: "foreign_page_uncharged", breaks: "pages of other sites use up none of their visitors' failures",
		file: "handlers/password.go", old: "if s.isForeignPage(r) {", new: "if false {",
		in: "./handlers", tests: []string{"TestThrottleOfASource"},
	},
	{
		name: "link_sentence", breaks: "an error page shows no sentence of a link",
		file: "handlers/authorize.go", old: "shownWord(p.value(\"client_id\"), store.ClientIDSizeMax)", new: "p.value(\"client_id\")",
		in: "./handlers", tests: []string{"TestErrorPageShowsNoSentenceOfALink"},
	},
	{
		name: "restored_versions", breaks: "a list from before a restore is none after it",
		file: "handlers/etag.go", old: "epoch != \"\"", new: "epoch != \"\" && false",
		in: "./handlers", tests: []string{"TestAListFromBeforeARestoreIsNoneAfterIt"},
	},
}
