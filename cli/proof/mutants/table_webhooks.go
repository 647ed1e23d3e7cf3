package main

// Webhook endpoints in the store.
var webhookMutants = []mutant{
	{
		name: "webhook_account", breaks: "an account finds its own endpoints only",
		file: "store/webhook/webhook.go", old: "if by.Account != \"\" && by.Account != string(account) {", new: "if false {",
		in: "./store/webhook", tests: []string{"TestEndpoints"},
	},
	{
		name: "webhook_turn", breaks: "what was in flight when an endpoint was disabled or skipped is not settled",
		file: "store/webhook/sender.go", old: "isStale = e.turn != was.turn || !e.Enabled()", new: "_ = was",
		in: "./store/webhook", tests: []string{"TestDisable", "TestSkip"},
	},
	{
		name: "webhook_fence", breaks: "one server at a time settles",
		file: "store/webhook/sender.go", old: "if in.fence != w.fence.Load() {", new: "if false {",
		in: "./store/webhook", tests: []string{"TestSettle"},
	},
	{
		name: "webhook_bond", breaks: "a push does not outlive the client or user whose token made it",
		file: "store/webhook/bonds.go", old: "_, err := w.disable(ctx, System, e.ID, BySystem, reason)", new: "var err error",
		in: "./store/webhook", tests: []string{"TestBonds"},
	},
	{
		name: "webhook_bond_start", breaks: "a killed command leaves no push behind",
		file: "store/webhook/sender.go", old: "reason, err = w.Bound(", new: "_, err = w.Bound(",
		in: "./store/webhook", tests: []string{"TestStartEndsBondsThatAKilledCommandLeft"},
	},
	{
		name: "webhook_bond_load", breaks: "a running sender ends a push that a killed command left",
		file: "store/webhook/sender.go", old: "ended, err = w.Bound(r, ", new: "_, err = w.Bound(r, ",
		in: "./store/webhook", tests: []string{"TestARunningSenderEndsBondsThatAKilledCommandLeft"},
	},
	{
		name: "webhook_held", breaks: "nothing is sent while webhooks are held",
		file: "cli/webhooks/sender.go", old: "return ep.Enabled() && !ep.Held", new: "return ep.Enabled()",
		in: "./cli/webhooks", tests: []string{"TestDisabling"},
	},
	{
		name: "webhook_secret_sealed", breaks: "a stolen store has no webhook secret",
		file: "store/webhook/secrets.go", old: "sealed: w.Key.Seal(sealLabel(id), []byte(token.Reveal()))}", new: "sealed: token.Reveal()}",
		in: "./store/webhook", tests: []string{"TestSecrets"},
	},
	{
		name: "webhook_secret_ends", breaks: "a rotated secret ends",
		file: "store/webhook/secrets.go", old: "return !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt)", new: "return false",
		in: "./store/webhook", tests: []string{"TestSecrets"},
	},
	{
		name: "webhook_event_url", breaks: "events do not show the path of a webhook URL",
		file: "store/webhook/object.go", old: "URL: e.origin(),", new: "URL: e.URL,",
		in: "./store/webhook", tests: []string{"TestEndpointEvents"},
	},
	{
		name: "webhook_own_event", breaks: "an endpoint is not sent that it was made",
		file: "store/webhook/sender.go", old: "return event.Position == e.born", new: "return false",
		in: "./store/webhook", tests: []string{"TestEndpointEvents"},
	},
	{
		name: "webhook_gap_once", breaks: "a gap is recorded once",
		file: "store/webhook/sender.go", old: "err != nil || e.Cursor.Compare(extent.Removed) >= 0", new: "err != nil",
		in: "./store/webhook", tests: []string{"TestGap"},
	},
	{
		name: "webhook_forget", breaks: "what is sent anew from a place is not also retried",
		file: "store/webhook/state.go", old: "e, err = w.forget(ctx, e)", new: "_ = w.forget",
		in: "./store/webhook", tests: []string{"TestEnable"},
	},
	{
		name: "webhook_set_full", breaks: "what is set aside has a bound",
		file: "store/webhook/state.go", old: "if e.IsFull() {", new: "if false {",
		in: "./store/webhook", tests: []string{"TestSettle"},
	},
	{
		name: "webhook_restored", breaks: "a copy does not push to the receivers of its original",
		file: "store/webhook/instance.go", old: "in.Held, in.Since, in.Reason = true, now, HeldRestored", new: "in.Reason = HeldRestored",
		in: "./store/webhook", tests: []string{"TestHold"},
	},
	{
		name: "webhook_purged", breaks: "what was purged is not kept for a retry",
		file: "store/purge.go", old: "err = s.Webhooks.SweepPurged(ctx, p.Account)", new: "err = nil",
		in: "./store/webhook", tests: []string{"TestPurgedEventsVanish"},
	},
	{
		name: "webhook_limit", breaks: "an account has 50 endpoints at most",
		file: "store/webhook/change.go", old: "len(others) == AccountMax", new: "false",
		in: "./store/webhook", tests: []string{"TestEndpoints"},
	},
	{
		name: "webhook_any_address", breaks: "no request goes to a name of which one address is refused",
		file: "cli/webhooks/dial.go", old: "if err := g.rules.CheckAddress(host, a); err != nil {", new: "if err := g.rules.CheckAddress(host, a); err != nil && false {",
		in: "./cli/webhooks", tests: []string{"TestAddressesThatAreNotAllowed"},
	},
	{
		name: "webhook_proxy", breaks: "no proxy is taken from the environment",
		file: "cli/webhooks/client.go", old: "Proxy:                  nil,", new: "Proxy:                  http.ProxyFromEnvironment,",
		in: "./cli/webhooks", tests: []string{"TestAddressesThatAreNotAllowed"},
	},
	{
		name: "webhook_answer", breaks: "the answer of a host that the operator let in is not shown",
		file: "cli/webhooks/client.go", old: "\tif shown {", new: "\tif true {",
		in: "./cli/webhooks", tests: []string{"TestAnswers"},
	},
	{
		name: "webhook_step", breaks: "a parked event begins with the pause behind the time that it blocked",
		file: "cli/webhooks/live_failed.go", old: "d.stepAfter(d.ep.Head.Blocked)", new: "0",
		in: "./cli/webhooks", tests: []string{"TestPoison"},
	},
	{
		name: "webhook_live_token", breaks: "a token that ends before its change is committed changes nothing",
		file: "store/webhook/webhook.go", old: "\treturn by.Live(r)", new: "\treturn nil",
		in: "./handlers", tests: []string{"TestWebhookTokenRevokedBeforeTheChangeIsCommitted"},
	},
}
