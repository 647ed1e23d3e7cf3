// Package server is the server that serve and dev run: its settings, listeners, TLS,
// metrics, scheduled backups and the demo data of dev.
//
// [ServeCommand] and [DevCommand] parse the flags. Both open a store, build the HTTP
// handlers over it, and answer until a signal stops them ("running" in server.go). The
// checks of doctor are here too: a running server makes them over the admin API, and
// the doctor command makes the same ones when no server runs.
package server

import (
	"github.com/spf13/pflag"

	"tollhouse/cli/database"
	"tollhouse/cli/term"
	"tollhouse/handlers/admin"
)

// Program is what serve and dev use of the program that runs them.
type Program struct {
	*term.Console
	Environ           []string
	Version, Revision string

	Data        string // the data directory
	DataGiven   bool   // it was named
	Store       database.Settings
	AdminSocket string // "" for the default
	KeyFile     string // of the server key, or "" for the default

	// Settings describes the flags of the server, with secrets masked.
	Settings func(*pflag.FlagSet) []admin.Setting
}
