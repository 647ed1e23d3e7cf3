package server

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"tollhouse/cli/term"
)

const (
	outputLineMax  = 1 << 10  // bytes of a line that are shown
	outputLinesMax = 200      // lines that are shown
	outputReadMax  = 64 << 10 // bytes of a line that are kept to find secrets in
	outputSecret   = 6        // bytes of the shortest value that is masked

	masked = "[masked]"
)

// ourSecrets are tokens of tollhouse, secrets of webhooks, and keys of age.
var ourSecrets = regexp.MustCompile(`(?:toll[a-z]{2}|whsec)_[0-9A-Za-z+/=_-]{8,}|(?i:AGE-SECRET-KEY-)[0-9A-Za-z-]+`)

// programOutput shows what a program prints, in lines, with secrets masked.
type programOutput struct {
	show        func(line string)
	rest        func(lines, bytes int) // what was not shown; called once if there is any
	secrets     []string               // the longest first
	shown       int
	lines, more int
}

// newProgramOutput masks the values of variables whose names say that they are secret.
func newProgramOutput(environ []string, show func(string), rest func(lines, bytes int)) *programOutput {
	o := &programOutput{show: show, rest: rest}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		name = strings.ToUpper(name)
		if !slices.ContainsFunc([]string{"PASSWORD", "SECRET", "TOKEN", "KEY"}, func(word string) bool { return strings.Contains(name, word) }) {
			continue
		}
		for _, line := range strings.Split(value, "\n") { // a key in PEM has several
			if line = strings.TrimSuffix(line, "\r"); len(line) >= outputSecret {
				o.secrets = append(o.secrets, line)
			}
		}
	}
	slices.SortFunc(o.secrets, func(a, b string) int { return len(b) - len(a) })
	return o
}

// read reads everything, and shows what may be shown.
func (o *programOutput) read(r io.Reader) {
	in := bufio.NewReaderSize(r, outputReadMax)
	for {
		line, err := in.ReadSlice('\n')
		beyond := 0
		if errors.Is(err, bufio.ErrBufferFull) {
			line = bytes.Clone(line)
			for errors.Is(err, bufio.ErrBufferFull) {
				var more []byte
				more, err = in.ReadSlice('\n')
				beyond += len(more)
			}
		}
		if len(line) > 0 {
			o.line(strings.TrimRight(string(line), "\r\n"), beyond)
		}
		if err != nil {
			break
		}
	}
	if o.lines > 0 || o.more > 0 {
		o.rest(o.lines, o.more)
	}
}

func (o *programOutput) line(text string, beyond int) {
	if o.shown == outputLinesMax {
		o.lines++
		o.more += len(text) + beyond
		return
	}
	o.shown++
	for _, secret := range o.secrets {
		text = strings.ReplaceAll(text, secret, masked)
	}
	if beyond > 0 && len(o.secrets) > 0 { // the last bytes may be the beginning of a secret
		whole := 0
		if i := strings.LastIndex(text, masked); i >= 0 {
			whole = i + len(masked)
		}
		text = text[:max(len(text)-len(o.secrets[0])+1, whole)]
	}
	text = term.Visible(ourSecrets.ReplaceAllString(text, masked))
	if len(text) > outputLineMax {
		cut := outputLineMax
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		o.more += len(text) - cut
		text = text[:cut]
	}
	o.more += beyond
	o.show(text)
}
