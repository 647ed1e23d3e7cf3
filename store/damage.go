package store

import (
	"errors"
	"fmt"

	"tollhouse/store/kv"
)

// kindWords are the kinds of record in the words of messages about damage: every
// tag has some.
var kindWords = map[byte]string{
	tagMeta: "notes of the store itself", tagClient: "clients", tagUser: "users", tagUserName: "names of users", tagAccount: "accounts",
	tagSession: "sessions", tagUserSession: "lists of sessions", tagDecided: "decided consent screens",
	tagCode: "authorization codes", tagUserCode: "lists of authorization codes",
	tagFamily: "token families", tagClientFamily: "lists of token families by client", tagUserFamily: "lists of token families by user",
	tagAccessToken: "access tokens", tagRefreshToken: "refresh tokens", tagAudit: "audit lines",
	tagEvent: "events", tagLogPart: "events and their lists", tagEventHead: "heads of event logs", tagKnownType: "known event types", tagEventType: "lists of events by type",
	tagEventResource: "lists of events by resource", tagEventForeign: "event ids given elsewhere",
	tagResource: "resources", tagCertificate: "certificates",
}

// NameKeys names the kinds of record whose keys may lie from first to last; a nil
// last is the end of all.
func NameKeys(first, last []byte) (names []string) {
	from, to := byte(0), byte(0xff)
	if len(first) > 0 {
		from = first[0]
	}
	if len(last) > 0 {
		to = last[0]
	}
	for tag := int(from); tag <= int(to); tag++ {
		if words, ok := kindWords[byte(tag)]; ok {
			names = append(names, words)
		}
	}
	return names
}

// nameDamaged adds to an error of the engine, which knows the kind of a damaged
// record by one byte alone, what that means.
func nameDamaged(err error) error {
	var damaged *kv.CorruptError
	if !errors.As(err, &damaged) || kindWords[damaged.Kind] == "" {
		return err
	}
	return fmt.Errorf("%w (among the %s)", err, kindWords[damaged.Kind])
}
