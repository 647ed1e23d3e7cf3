// Package dev has what `tollhouse dev` gives to people who test against it, below /_dev:
// the instance's [Clock], the [Faults] that it injects into answers, the [Journal] of the
// requests that it got, snapshots, and ways to create tokens, events and seeds. Every object
// belongs to one instance, so a reset makes new ones instead of clearing them. serve has
// none of it: without [Controls] the room adds no route and no work to a request.
//
// A request passes through Watch, which records it in the journal, then WithOrigin, which
// keeps the pages of other origins away from the controls, then WithFaults, which delays,
// replaces or breaks its answer. The controls themselves are never hit or recorded.
//
//	/_dev                      dev.go: the table of endpoints, which openapi.go describes
//	/_dev/                     page.go: the page for people, whose forms send the calls below
//	/_dev/clock                clock.go
//	/_dev/faults               faults.go; fault_rules.go has the rules, fault_answers.go
//	                           carries them out
//	/_dev/requests             requests.go; watch.go observes requests, journal.go keeps
//	                           them, journal_masked.go masks their secrets
//	/_dev/tokens, events, seed make.go
//	/_dev/state, snapshot, restore, reset  reset.go; cli/server has the Controller
//
// It needs web, of oauth the token answer and Basic credentials, and of api the bearer token
// and the signal that the server stops.
package dev
