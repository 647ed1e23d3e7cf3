package eventlog

import (
	"slices"
	"strings"
)

// Type is an event type of the catalogue.
type Type struct {
	Name    string // <resource_kind>.<action>
	Meaning string // one sentence
}

// Kind returns the kind of resource that events of the type are about.
func (t Type) Kind() string {
	kind, _, _ := strings.Cut(t.Name, ".")
	return kind
}

// Catalogue returns the event types of a payments platform, sorted by name. It is
// documentation only: any well-formed type may be recorded.
func Catalogue() []Type { return slices.Clone(catalogue) }

// The meanings of account.autoupdate and transaction.ach_process_error come from the
// specification; the others are our choice.
var catalogue = sortedByName([]Type{
	{"customer.created", "A customer was added."},
	{"customer.updated", "A customer's fields were changed."},
	{"customer.deleted", "A customer was removed."},
	{"customer.merged", "Another customer was merged into a customer."},
	{"customer.activated", "A customer may be billed again."},
	{"customer.deactivated", "A customer may no longer be billed."},

	{"account.created", "A payment account was put on file."},
	{"account.updated", "A payment account's fields were changed."},
	{"account.deleted", "A payment account was taken off file."},
	{"account.autoupdate", "A payment account was automatically updated from information received from the processing bank."},
	{"account.autoupdate_closed", "The processing bank reported that a payment account is closed."},
	{"account.autoupdate_contact", "The processing bank asks to contact the holder of a payment account."},
	{"account.verified", "A payment account's ownership was verified."},
	{"account.verification_failed", "A payment account could not be verified."},
	{"account.expiring", "A card on file expires soon."},
	{"account.expired", "A card on file has expired."},
	{"account.default_changed", "A customer's default payment account was changed."},

	{"transaction.created", "A transaction was begun."},
	{"transaction.updated", "A transaction's fields were changed."},
	{"transaction.deleted", "A transaction was removed before it was processed."},
	{"transaction.authorized", "The issuer of a card set the amount aside."},
	{"transaction.captured", "An authorized amount was claimed."},
	{"transaction.declined", "The issuer of a card refused a transaction."},
	{"transaction.voided", "A transaction was cancelled before it settled."},
	{"transaction.settled", "The amount of a transaction was paid."},
	{"transaction.settlement_failed", "A transaction could not be settled."},
	{"transaction.refunded", "The whole amount of a transaction was paid back."},
	{"transaction.partially_refunded", "A part of the amount of a transaction was paid back."},
	{"transaction.refund_failed", "A refund could not be paid."},
	{"transaction.ach_submitted", "An ACH transaction was sent to the processor."},
	{"transaction.ach_process_error", "An ACH transaction was declined by the processor."},
	{"transaction.ach_return", "The receiving bank returned an ACH transaction."},
	{"transaction.ach_notice_of_change", "The receiving bank asks to correct the data of an ACH transaction."},
	{"transaction.ach_settled", "The amount of an ACH transaction was paid."},
	{"transaction.disputed", "The payer disputes a transaction."},
	{"transaction.dispute_won", "A dispute was decided for the merchant."},
	{"transaction.dispute_lost", "A dispute was decided for the payer."},
	{"transaction.held", "A transaction was held for review."},
	{"transaction.released", "A held transaction was released."},

	{"invoice.created", "An invoice was drawn up."},
	{"invoice.updated", "An invoice's fields were changed."},
	{"invoice.deleted", "An invoice was removed."},
	{"invoice.sent", "An invoice was sent to the customer."},
	{"invoice.viewed", "The customer opened an invoice."},
	{"invoice.reminder_sent", "The customer was reminded of an invoice."},
	{"invoice.paid", "An invoice was paid in full."},
	{"invoice.partially_paid", "A part of an invoice was paid."},
	{"invoice.payment_failed", "A payment of an invoice failed."},
	{"invoice.overdue", "An invoice was not paid by its date."},
	{"invoice.voided", "An invoice was cancelled."},
	{"invoice.written_off", "Payment of an invoice is no longer expected."},

	{"recurring.created", "A recurring schedule was set up."},
	{"recurring.updated", "A recurring schedule was changed."},
	{"recurring.deleted", "A recurring schedule was removed."},
	{"recurring.paused", "A recurring schedule was paused."},
	{"recurring.resumed", "A recurring schedule was resumed."},
	{"recurring.completed", "A recurring schedule has made its last payment."},
	{"recurring.payment_failed", "A payment of a recurring schedule failed."},
	{"recurring.retry_scheduled", "A failed payment of a recurring schedule will be tried again."},

	{"batch.closed", "A batch takes no more transactions."},
	{"batch.settled", "A batch was settled."},
	{"deposit.created", "A deposit was sent to the bank."},
	{"deposit.settled", "A deposit has arrived in the bank."},
	{"deposit.returned", "The bank returned a deposit."},

	{"token.created", "A card or bank account was put into the vault."},
	{"token.deleted", "A card or bank account was taken out of the vault."},

	{"user.created", "A user was added."},
	{"user.updated", "A user was changed."},
	{"user.deleted", "A user was removed."},
	{"user.locked", "A user can no longer sign in."},
	{"client.authorized", "A user allowed a client to act for them."},
	{"client.deauthorized", "A client may no longer act for a user."},
	{"client.secret_rotated", "A client was given a new secret."},

	{"webhook_endpoint.created", "A webhook endpoint was added."},
	{"webhook_endpoint.updated", "A webhook endpoint was changed."},
	{"webhook_endpoint.deleted", "A webhook endpoint was removed."},
	{"webhook_endpoint.disabled", "Delivery to a webhook endpoint was disabled."},
	{"webhook_endpoint.enabled", "Delivery to a webhook endpoint was enabled."},
	{"webhook_endpoint.secret_rotated", "A webhook endpoint was given a new secret."},
	{"webhook_endpoint.gap", "Events were removed before a webhook endpoint could be sent them."},

	{"system.test", "A test of event delivery."},
})

func sortedByName(types []Type) []Type {
	slices.SortFunc(types, func(a, b Type) int { return strings.Compare(a.Name, b.Name) })
	return types
}
