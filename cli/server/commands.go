package server

import (
	"path/filepath"
	"regexp"
	"strings"

	"tollhouse/cli/term"
	"tollhouse/store/kv/pgkv"
)

// Operators paste the commands that we show elsewhere: as another user, in another directory,
// next to another server. So each command says which store it is for.

// storeCommand matches a command that works on a store. Those of a group have a second word.
var storeCommand = regexp.MustCompile(`\btollhouse (?:(?:account|alarm|client|event|session|token|user|webhook) [a-z][a-z-]*|audit|backup(?: verify)?|config set|doctor|export|health|import|move|restore|stats|status)\b`)

// CompleteCommands adds at, the flags that name a store, to the commands in a text that lack
// them.
func CompleteCommands(text, at string) string {
	for _, has := range []string{"--data ", "--store", "--admin-socket ", "--help", "usage: ", "did you mean"} {
		if at == "" || strings.Contains(text, has) {
			return text
		}
	}
	return storeCommand.ReplaceAllStringFunc(text, func(command string) string {
		if strings.HasSuffix(command, " verify") { // a file, and no store
			return command
		}
		return command + " " + at
	})
}

// At returns the flags that name the store of this program to its other commands, quoted for
// a shell. A password in the URL of a database is masked.
func (p *Program) At() string {
	switch {
	case p.Store.Given():
		return p.atDatabase()
	case p.AdminSocket != "" && !p.DataGiven:
		return "--admin-socket " + term.ShellQuote(absolute(p.AdminSocket))
	}
	return "--data " + term.ShellQuote(absolute(p.Data))
}

// serveAt is At for a server on a data directory: LOCK tells commands its socket.
func (p *Program) serveAt() string {
	if p.Store.Given() {
		return p.atDatabase()
	}
	return "--data " + term.ShellQuote(absolute(p.Data))
}

func (p *Program) atDatabase() string {
	at := "--store " + term.ShellQuote(pgkv.Mask(p.Store.URL))
	if p.Store.URL == "" {
		at = "--store-file " + term.ShellQuote(absolute(p.Store.File))
	}
	if p.Store.Insecure {
		at += " --insecure-store"
	}
	if p.Store.Schema != pgkv.SchemaDefault {
		at += " --store-schema " + p.Store.Schema
	}
	return at
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
