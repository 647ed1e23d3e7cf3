package store

import (
	"unicode"
	"unicode/utf8"
)

const nameRunesMax = 80 // characters of a name that is shown to people

// checkName refuses a name that a screen could not show as what it is: control
// characters, and the marks that turn the direction of text and so let one name
// look like another.
func checkName(field, name string, mayBeEmpty bool) error {
	const hint = "give a short name of ordinary letters, digits and signs"
	if name == "" && !mayBeEmpty {
		return invalid(field, hint, "the name is empty")
	}
	if !utf8.ValidString(name) {
		return invalid(field, hint, "the name is not valid UTF-8")
	}
	if n := utf8.RuneCountInString(name); n > nameRunesMax {
		return invalid(field, hint, "the name has %d characters, more than %d", n, nameRunesMax)
	}
	for _, r := range name {
		if unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return invalid(field, hint, "the name holds the invisible character U+%04X", r)
		}
	}
	return nil
}
