package views

// Done names the outcome of a form. It is the value of the cookie that carries it over the
// redirect to the page that shows it.
type Done string

// The outcomes of forms.
const (
	DoneRevoked    Done = "revoked"
	DoneOthers     Done = "others"
	DonePassword   Done = "password"
	DoneEnded      Done = "password-and-all"
	DoneByCode     Done = "password-by-code"
	DoneWebhookOff Done = "webhook-off"

	DoneTooLong        Done = "sign-in-too-long"
	DoneFactorRemoved  Done = "factor-removed"
	DonePasskeyRemoved Done = "passkey-removed"

	DoneClientSaved     Done = "client-saved"
	DoneClientDisabled  Done = "client-disabled"
	DoneClientEnabled   Done = "client-enabled"
	DoneUserDisabled    Done = "user-disabled"
	DoneUserEnabled     Done = "user-enabled"
	DoneUserPromoted    Done = "user-promoted"
	DoneUserDemoted     Done = "user-demoted"
	DoneUserSignedOut   Done = "user-signed-out"
	DoneFactorReset     Done = "factor-reset"
	DoneSessionEnded    Done = "session-ended"
	DoneAccessRevoked   Done = "access-revoked"
	DoneBackupBegun     Done = "backup-begun"
	DoneBackupVerifying Done = "backup-verifying"
	DoneCheckBegun      Done = "check-begun"
	DoneWebhookEnabled  Done = "webhook-enabled"
	DoneWebhookDisabled Done = "webhook-disabled"
	DoneWebhookSkipped  Done = "webhook-skipped"
	DoneWebhookRetried  Done = "webhook-retried"
	DoneWebhooksHeld    Done = "webhooks-held"
	DoneWebhooksResumed Done = "webhooks-resumed"
)

// doneWords are the notices. An unknown outcome, of an old cookie, has none.
var doneWords = map[Done]string{
	DoneRevoked:  "The application no longer has access. Its webhooks are turned off.",
	DoneOthers:   "You are signed out everywhere else.",
	DonePassword: "Your password was changed. Your other sign-ins, applications and webhooks are not affected.",
	DoneEnded:    "Your password was changed. You are signed out everywhere else, no application has access, and the webhooks of your applications are turned off.",
	DoneByCode:   "Your password is set. Sign in with it.",

	DoneTooLong:        "Your sign-in took too long. Enter your password again.",
	DoneFactorRemoved:  "The app was removed. You are signed out everywhere else.",
	DonePasskeyRemoved: "The passkey was removed. You are signed out everywhere else.",

	DoneWebhookOff: "The webhook is turned off. The application can turn it on again while it has access.",

	DoneClientSaved:     "The client was changed.",
	DoneClientDisabled:  "The client is disabled. Its tokens are revoked, and its webhook endpoints are disabled.",
	DoneClientEnabled:   "The client is enabled. It needs new tokens.",
	DoneUserDisabled:    "The user is disabled and signed out everywhere. Their tokens are revoked, and webhook endpoints created with them are disabled.",
	DoneUserEnabled:     "The user can sign in again.",
	DoneUserPromoted:    "The user is now an operator.",
	DoneUserDemoted:     "The user is no longer an operator.",
	DoneUserSignedOut:   "The user is signed out in every browser. Applications still have access.",
	DoneFactorReset:     "The second factor was reset. The user is signed out and signs in with the password.",
	DoneSessionEnded:    "That browser is signed out.",
	DoneAccessRevoked:   "The application no longer has that access, and webhook endpoints created with it are disabled.",
	DoneBackupBegun:     "Backup started.",
	DoneBackupVerifying: "Backup check started.",
	DoneCheckBegun:      "Search for damage started.",
	DoneWebhookEnabled:  "The endpoint is enabled. It no longer depends on an authorization.",
	DoneWebhookDisabled: "The endpoint is disabled. Only operators can enable it. Its cursor is kept, so no events are lost.",
	DoneWebhookSkipped:  "The event was skipped. It stays listed and can be retried.",
	DoneWebhookRetried:  "The events are being retried.",
	DoneWebhooksHeld:    "Deliveries held.",
	DoneWebhooksResumed: "Deliveries resumed.",

	"dev-addFault":        "The fault was added.",
	"dev-dropFault":       "The fault was removed.",
	"dev-dropFaults":      "All faults were removed.",
	"dev-dropRequests":    "All requests were removed from the list.",
	"dev-moveClock":       "The clock was changed.",
	"dev-saveSnapshot":    "The snapshot was saved.",
	"dev-restoreSnapshot": "The snapshot was restored: data, tokens and clock are as they were.",
	"dev-dropSnapshot":    "The snapshot was removed.",
	"dev-dropSnapshots":   "All snapshots were removed.",
	"dev-resetInstance":   "The instance was reset.",
}

// DoneOf is the outcome of a call of a test instance's controls, by its operation id.
func DoneOf(call string) Done { return Done("dev-" + call) }

func (d Done) words() string { return doneWords[d] }
