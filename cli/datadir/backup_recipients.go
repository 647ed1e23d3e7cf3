package datadir

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"tollhouse/cli/term"
	"tollhouse/store/backup/encryption"
)

const (
	recipientFlag     = "backup-recipient"
	recipientFileFlag = "backup-recipient-file"

	keysSizeMax = 64 << 10 // bytes read of a file of keys
)

// RecipientFlags say for whom backups are encrypted.
type RecipientFlags struct {
	keys []string
	file string
}

// Add defines the flags.
func (f *RecipientFlags) Add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.keys, recipientFlag, nil, "encrypt backups for this public `key` of age (age1…) or SSH; may be given several times")
	flags.StringVar(&f.file, recipientFileFlag, "", "`file` with such keys, one on each line, with # before comments")
}

// Parse returns the recipients, or nil if none are given.
func (f *RecipientFlags) Parse() (*encryption.Recipients, error) {
	keys := joinSSH(f.keys)
	var lines []int // of those in the file
	if f.file != "" {
		text, err := readKeys(f.file)
		if err != nil {
			return nil, term.Fail(term.UnreadableCode(err), "check --"+recipientFileFlag, "cannot read the recipients in %s: %w", f.file, term.PathReason(err))
		}
		for i, line := range strings.Split(text, "\n") {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				keys, lines = append(keys, line), append(lines, i+1)
			}
		}
		if len(lines) == 0 {
			return nil, term.Usage("write a public key into it, or leave --"+recipientFileFlag+" out", "%s has no recipient", f.file)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	to, err := encryption.ParseRecipients(keys)
	var wrong *encryption.KeyError
	if !errors.As(err, &wrong) {
		return to, err
	}
	named := len(keys) - len(lines)
	switch {
	case wrong.Index < 0:
		return nil, term.Usage(wrong.Hint, "%s", wrong.Reason)
	case wrong.Index >= named:
		return nil, term.Usage(wrong.Hint, "line %d of %s cannot be a recipient: %s", lines[wrong.Index-named], f.file, wrong.Reason)
	}
	return nil, term.Usage(wrong.Hint, "--%s number %d cannot be used: %s", recipientFlag, wrong.Index+1, wrong.Reason)
}

// joinSSH joins the words of an SSH key, which a variable separates.
func joinSSH(words []string) (keys []string) {
	for _, word := range words {
		if last := len(keys) - 1; last >= 0 && (keys[last] == "ssh-ed25519" || keys[last] == "ssh-rsa") {
			keys[last] += " " + word
			continue
		}
		keys = append(keys, word)
	}
	return keys
}

func readKeys(path string) (string, error) {
	f, err := term.OpenInput(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := term.ReadText(f, keysSizeMax)
	return string(text), err
}

// IdentityFlag is --identity.
type IdentityFlag struct{ files []string }

// Add defines the flag.
func (f *IdentityFlag) Add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.files, "identity", nil, "`file` with secret keys of age, or a private SSH key, that decrypts the backup, or - for standard input; may be given several times")
}

// Given reports whether there is any.
func (f *IdentityFlag) Given() bool { return len(f.files) > 0 }

// Parse reads the identities. stdinUsed says that the backup is read from standard input.
func (f *IdentityFlag) Parse(c *term.Console, stdinUsed bool) (with encryption.Identities, err error) {
	for _, path := range f.files {
		name, text := path, ""
		if path == "-" {
			if stdinUsed {
				return nil, term.Usage("name a file for one of them", "standard input can be read only once")
			}
			stdinUsed, name = true, "standard input"
			var read []byte
			read, err = term.ReadText(c.In, keysSizeMax)
			text = string(read)
		} else {
			text, err = readKeys(path)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, term.Fail(term.ExitNotFound, "name a file with the secret key of a recipient", "the identity file %s %s", name, term.Missing(name))
		case err != nil:
			return nil, NotAllowedOr(term.ExitIO, name, err)
		}
		keys, err := encryption.ParseIdentities(text)
		var wrong *encryption.KeyError
		switch {
		case errors.As(err, &wrong) && wrong.Index >= 0:
			return nil, term.Usage(wrong.Hint, "line %d of %s cannot be used: %s", wrong.Index+1, name, wrong.Reason)
		case errors.As(err, &wrong):
			return nil, term.Usage(wrong.Hint, "%s cannot be used: %s", name, wrong.Reason)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			c.Note("warning: other users may read the secret key in %s (mode %04o): chmod 600 %s", path, info.Mode().Perm(), term.ShellQuote(path))
		}
		with = append(with, keys...)
	}
	return with, nil
}
