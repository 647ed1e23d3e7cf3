package web

import "strings"

// ShellOperand quotes a name for a command. One that begins with a hyphen follows "--",
// after which nothing is a flag.
func ShellOperand(name string) string {
	if strings.HasPrefix(name, "-") {
		return "-- " + shellWord(name)
	}
	return shellWord(name)
}

// shellWord quotes text if a shell would not take it for one word.
func shellWord(text string) string {
	if IsPlainWord(text) {
		return text
	}
	return ShellQuote(text)
}

// IsPlainWord reports whether every shell takes text for one word as it is.
func IsPlainWord(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return c != '_' && c != '-' && c != '.' && c != '@' && (c < '0' || c > '9') && (c < 'a' || c > 'z') &&
			(c < 'A' || c > 'Z')
	})
}

// CurlField is a field of a form, for a command line of curl.
func CurlField(name, value string) string {
	if IsPlainWord(value) { // which is encoded as it stands
		return " -d " + name + "=" + value
	}
	return " --data-urlencode " + CurlWord(name+"="+value)
}

// CurlWord quotes an address, a header or a body for a command line of curl if a shell would
// not take it for one word. A variable such as $TOKEN stays one.
func CurlWord(text string) string {
	switch {
	case strings.Contains(text, "$") && !strings.ContainsAny(text, "\"`\\'!"):
		return `"` + text + `"`
	case IsPlainWord(strings.NewReplacer("/", "", ":", "", "=", "").Replace(text)):
		return text
	}
	return ShellQuote(text)
}

// ShellQuote quotes text as one shell word.
func ShellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
