package record

import (
	"errors"
	"fmt"

	"tollhouse/store/kv"
)

// KindWords names each kind of record in messages about damage. Every tag has an
// entry.
var KindWords = map[byte]string{
	TagMeta: "notes of the store itself", TagClient: "clients", TagUser: "users", TagUserName: "names of users", TagAccount: "accounts", TagAccountUser: "lists of users by account",
	TagSession: "sessions", TagUserSession: "lists of sessions", TagDecided: "decided consent screens",
	TagCode: "authorization codes", TagUserCode: "lists of authorization codes", TagConsent: "remembered consents",
	TagFamily: "token families", TagClientFamily: "lists of token families by client", TagUserFamily: "lists of token families by user",
	TagAccessToken: "access tokens", TagRefreshToken: "refresh tokens", TagImported: "texts of imported tokens", TagAudit: "audit lines",
	TagLog: "events and their lists", TagEventHead: "heads of event logs", TagKnownType: "known event types", TagEventForeign: "event ids given elsewhere",
	TagResource: "resources", TagCertificate: "certificates",
	TagCounts: "counts of events",
	TagRing:   "counts of requests", TagSignIn: "latest sign-ins", TagFactor: "second factors", TagClientUse: "latest uses of clients",
	TagWebhook: "webhook endpoints", TagWebhookID: "list of webhook endpoints", TagWebhookSet: "webhook events set aside", TagWebhookLine: "webhook deliveries",
	TagFeed: "feed of all accounts", TagAlarm: "notes of the alarms",
}

// NameKeys names the kinds of record with keys from first to last. A nil last
// means the end of the store.
func NameKeys(first, last []byte) (names []string) {
	from, to := byte(0), byte(0xff)
	if len(first) > 0 {
		from = first[0]
	}
	if len(last) > 0 {
		to = last[0]
	}
	for tag := int(from); tag <= int(to); tag++ {
		if words, ok := KindWords[byte(tag)]; ok {
			names = append(names, words)
		}
	}
	return names
}

// NameDamaged names the kind of a damaged record. The engine knows only its first key
// byte.
func NameDamaged(err error) error {
	var damaged *kv.CorruptError
	if !errors.As(err, &damaged) || KindWords[damaged.Kind] == "" {
		return err
	}
	return fmt.Errorf("%w (among the %s)", err, KindWords[damaged.Kind])
}
