package main

// The audit record.
var auditMutants = []mutant{
	{
		name: "audit_line_in_its_change", breaks: "no change without its audit line",
		under: "store", old: "return appendAudit(tx, c.AuditLine, c.at, c.tail)", new: "return nil",
		tests: []string{"TestNoChangeWithoutItsLine"},
	},
	{
		name: "audit_line_of_an_import", breaks: "the audit line of an import is written in each of its transactions",
		under: "store", old: "r.line.isAsked && total != at.counts", new: "r.line.isAsked && total != at.counts && at.counts == 0",
		tests: []string{"TestTheAuditLineOfAnImportIsRightAtEveryMoment"},
	},
	{
		name: "audit_position_after_the_last", breaks: "a reader of the audit record misses no line",
		under: "store", fn: "appendAuditAt", old: "head.Next(now, tail)", new: "record.NewPosition(max(now.UnixMilli(), head.Millis()-1), 0, tail)",
		tests: []string{"TestTheAuditRecordIsAFeed"},
	},
	{
		name: "audit_refusals_of_a_caller", breaks: "the refusals of one client do not fill the audit record",
		under: "store", old: "t == nil || !t.admits(now, auditChangesMax)", new: "t == nil",
		tests: []string{"TestRefusalsOfACallerHaveLines"},
	},
}
