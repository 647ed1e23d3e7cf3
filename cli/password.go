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

// readPassword reads a password from a file, standard input or a terminal. One
// line end behind it does not count.
func (p *program) readPassword(ctx context.Context, file string) (string, error) {
	if file == "" {
		return p.askPassword(ctx)
	}
	in := p.stdin
	if file != "-" {
		f, err := openInput(file)
		if err != nil {
			return "", fail(exitUsage, "name a file that holds the password, or - for standard input", "--password-file %s: %w", file, pathReason(err))
		}
		defer f.Close()
		in = f
	}
	// One byte more than the largest tells that there are too many.
	text, err := io.ReadAll(io.LimitReader(in, secret.PasswordSizeMax+int64(len("\r\n"))+1))
	if err != nil {
		return "", fail(exitIO, "", "read the password: %w", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case !utf8.ValidString(password):
		return "", fail(exitBadData, "save it as UTF-8", "the password is not UTF-8 text")
	case strings.ContainsAny(password, "\n\x00"):
		return "", fail(exitBadData, "write it on one line", "the password has more than one line, or holds a NUL")
	}
	return password, nil
}

// askPassword asks a person, twice, without showing what they type.
func (p *program) askPassword(ctx context.Context) (string, error) {
	if !isTerminal(p.stdin) {
		return "", usage("give --password-file FILE, or --password-file - to read standard input", "there is no terminal to ask for a password")
	}
	first, err := p.askHidden(ctx, "Password: ")
	if err != nil {
		return "", err
	}
	second, err := p.askHidden(ctx, "Again: ")
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
func (p *program) askHidden(ctx context.Context, prompt string) (string, error) {
	fd := int(p.stdin.(*os.File).Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
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
			return "", fmt.Errorf("read the password: %w", l.err)
		}
		if !utf8.Valid(l.text) {
			return "", fail(exitBadData, "type it on a terminal that speaks UTF-8", "the password is not UTF-8 text")
		}
		return string(l.text), nil
	}
}
