package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tollhouse/store/secret"
)

func addPasswordFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "password-file", "", "a `file` with the password, or - for standard input; without it a terminal is asked")
}

// readPassword reads a password from a file, standard input or a terminal.
func (p *program) readPassword(ctx context.Context, file string) (string, error) {
	if file == "" {
		return p.askPassword(ctx)
	}
	return p.readSecret("password", "--password-file", file, secret.PasswordSizeMax)
}

// readSecret reads the one line of a file or of standard input. The line end
// behind it does not count. What it holds is in no message.
func (p *program) readSecret(what, flag, file string, sizeMax int64) (string, error) {
	in := p.stdin
	if file != "-" {
		f, err := openInput(file)
		if err != nil {
			return "", fail(exitUsage, "name a file that holds the "+what+", or - for standard input", "%s %s: %w", flag, file, pathReason(err))
		}
		defer f.Close()
		in = f
	}
	// One byte more than the largest tells that there are too many.
	text, err := io.ReadAll(io.LimitReader(in, sizeMax+int64(len("\r\n"))+1))
	if err != nil {
		return "", fail(exitIO, "", "read the %s: %w", what, err)
	}
	line := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case !utf8.ValidString(line):
		return "", fail(exitBadData, "save it as UTF-8", "the %s is not UTF-8 text", what)
	case strings.ContainsAny(line, "\n\x00"):
		return "", fail(exitBadData, "write it on one line", "the %s has more than one line, or holds a NUL", what)
	}
	return line, nil
}

// askPassword asks a person, twice, without showing what they type.
func (p *program) askPassword(ctx context.Context) (string, error) {
	if !isTerminal(p.stdin) {
		return "", usage("give --password-file FILE, or --password-file - to read standard input", "there is no terminal to ask for a password")
	}
	first, err := p.askHidden(ctx, "password", "Password: ")
	if err != nil {
		return "", err
	}
	second, err := p.askHidden(ctx, "password", "Again: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", fail(exitFailed, "try again", "the two passwords differ; nothing was changed")
	}
	return first, nil
}

// askHidden reads a line without echo. An interrupt gives the terminal its echo
// back.
func (p *program) askHidden(ctx context.Context, what, prompt string) (string, error) {
	fd := int(p.stdin.(*os.File).Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("read the "+what+": %w", err)
	}
	fmt.Fprint(p.stderr, prompt)
	type line struct {
		text []byte
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		_ = term.Restore(fd, before)
		return "", ctx.Err()
	case l := <-read:
		fmt.Fprintln(p.stderr)
		if l.err != nil {
			return "", fmt.Errorf("read the "+what+": %w", l.err)
		}
		if !utf8.Valid(l.text) {
			return "", fail(exitBadData, "type it on a terminal that speaks UTF-8", "the %s is not UTF-8 text", what)
		}
		return string(l.text), nil
	}
}
