package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// ReadSecret reads one line from a file, or from standard input when file is -. No
// message contains it.
func (c *Console) ReadSecret(what, flag, file string, sizeMax int64) (string, error) {
	in := c.In
	if file != "-" {
		f, err := OpenInput(file)
		if err != nil {
			return "", Fail(ExitUsage, "name a file that holds the "+what+", or - for standard input", "%s %s: %w", flag, file, PathReason(err))
		}
		defer f.Close()
		in = f
	}
	// One byte more than the largest shows that there are too many.
	text, err := ReadText(in, sizeMax+int64(len("\r\n"))+1)
	if errors.Is(err, ErrUTF16) {
		return "", Fail(ExitBadData, "save it as UTF-8", "the %s is UTF-16 text", what)
	}
	if err != nil {
		return "", Fail(ExitIO, "", "read the %s: %w", what, err)
	}
	line := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case !utf8.ValidString(line):
		return "", Fail(ExitBadData, "save it as UTF-8", "the %s is not UTF-8 text", what)
	case strings.ContainsAny(line, "\n\x00"):
		return "", Fail(ExitBadData, "write it on one line", "the %s has more than one line or contains a NUL", what)
	}
	return line, nil
}

const passwordTries = 3

// AskPassword asks twice on the terminal, without echo, for a password of at least so many
// characters. It asks again if they are fewer or differ.
func (c *Console) AskPassword(ctx context.Context, sizeMin int, isShort func(string) bool) (string, error) {
	if !IsTerminal(c.In) {
		return "", Usage("give --password-file FILE, or --password-file - to read standard input", "cannot ask for a password without a terminal")
	}
	prompt := fmt.Sprintf("Password (at least %d characters): ", sizeMin)
	var wrong error
	for range passwordTries {
		if wrong != nil {
			fmt.Fprintf(c.Err, "tollhouse: %v; try again\n", wrong)
		}
		first, err := c.AskHidden(ctx, "password", prompt)
		if err != nil {
			return "", err
		}
		if isShort(first) {
			wrong = errors.New("the password is too short")
			continue
		}
		second, err := c.AskHidden(ctx, "password", "Again: ")
		if err != nil {
			return "", err
		}
		if first == second {
			return first, nil
		}
		wrong = errors.New("the two passwords differ")
	}
	return "", Fail(ExitFailed, "run it again", "%w; nothing was changed", wrong)
}

// AskHidden reads a line without echo, and restores the echo when ctx is done.
func (c *Console) AskHidden(ctx context.Context, what, prompt string) (string, error) {
	fd := int(c.In.(*os.File).Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fmt.Errorf("read the "+what+": %w", err)
	}
	fmt.Fprint(c.Err, prompt)
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
		fmt.Fprintln(c.Err)
		if l.err != nil {
			return "", fmt.Errorf("read the "+what+": %w", l.err)
		}
		if !utf8.Valid(l.text) {
			return "", Fail(ExitBadData, "use a UTF-8 terminal", "the %s is not UTF-8 text", what)
		}
		return string(l.text), nil
	}
}

// Confirm asks before something is deleted, until ctx is done. Without a terminal it
// does not ask.
func (c *Console) Confirm(ctx context.Context, question, name string) error {
	if c.Yes || !IsTerminal(c.In) {
		return nil
	}
	fmt.Fprintf(c.Err, question+" [y/N] ", Visible(name))
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := bufio.NewReader(io.LimitReader(c.In, 1<<10)).ReadString('\n')
		read <- line{text, err}
	}()
	var answer line
	select {
	case <-ctx.Done():
		fmt.Fprintln(c.Err)
		return ctx.Err()
	case answer = <-read:
	}
	if answer.err != nil && !errors.Is(answer.err, io.EOF) {
		return fmt.Errorf("read the answer: %w", answer.err)
	}
	switch strings.ToLower(strings.TrimSpace(answer.text)) {
	case "y", "yes":
		return nil
	}
	return Fail(ExitFailed, "answer y, or give --yes", "nothing was deleted")
}
