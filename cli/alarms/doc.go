// Package alarms tells people what a server has found: what is wrong begins and ends, and some
// things happen once.
//
// A [Target] is one URL of --alarm, spelled as shoutrrr spells them (target.go), and makes the
// requests of its service (service.go, mail.go). A [Sender] is given what lasts now at each look
// (state.go), keeps a queue for each target (queue.go), and sends from it (sender.go). The state
// and the queues are in memory and written to the store after each change, so that a kill loses
// no message, and a store that refuses writes delays none.
package alarms
