package main

// Webhooks: whose they are, when they end, and what they send once.
var webhookMutants = []mutant{
	{
		name: "webhook_account", breaks: "an account finds its own endpoints only",
		under: "store/webhook", old: `by.Account != "" && by.Account != string(account)`, new: "false",
		tests: []string{"TestEndpoints"},
	},
	{
		name: "webhook_turn", breaks: "what was in flight when an endpoint was disabled or skipped is not settled",
		under: "store/webhook", old: "isStale = e.turn != was.turn || !e.Enabled()", new: "_ = was",
		tests: []string{"TestDisable", "TestSkip"},
	},
	{
		name: "webhook_fence", breaks: "one server at a time settles",
		under: "store/webhook", old: "in.fence != w.fence.Load()", new: "false",
		tests: []string{"TestSettle"},
	},
	{
		name: "webhook_ends", breaks: "a push does not outlive the authorization whose token made it",
		under: "store/webhook", fn: "disable", old: "!of.owner.covers(e.Owner)", new: "true",
		tests: []string{"TestEndpointsEndWithTheirAuthorization"},
	},
	{
		name: "webhook_attempt_after_revocation", breaks: "no request begins after a revocation",
		under: "cli/webhooks", old: "err := r.mayAttempt(m)", new: "err := r.stop.Err()",
		tests: []string{"TestNoRequestBeginsAfterARevocation"},
	},
	{
		name: "webhook_live_token", breaks: "a token that ends before its change is committed changes nothing",
		under: "store/webhook", old: "return by.Live(r)", new: "return nil",
		in: "handlers", tests: []string{"TestWebhookTokenRevokedBeforeTheChangeIsCommitted"},
	},
	{
		name: "webhook_purged", breaks: "what was purged is not kept for a retry",
		under: "store", old: "s.Webhooks.SweepPurged(ctx, p.Account)", new: "error(nil)",
		in: "store/webhook", tests: []string{"TestPurgedEventsVanish"},
	},
}
