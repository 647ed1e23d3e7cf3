package store

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"tollhouse/store/record"
)

const (
	nameRunesMax     = 80 // characters of a display name
	instanceRunesMax = 60 // next to a logo and in a title
)

// CheckInstanceName checks the name of a server. Errors: *InvalidError.
func CheckInstanceName(name string) error {
	if n := utf8.RuneCountInString(name); n > instanceRunesMax {
		return record.Invalid("instance_name", "give a shorter name", "the name has %d characters, more than %d", n, instanceRunesMax)
	}
	return checkName("instance_name", name, false)
}

// blank holds letters and symbols that render as empty space but are not
// default-ignorable in Unicode: the empty Braille pattern, the object replacement
// character, and the fillers of two scripts.
var blank = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x2800, Hi: 0x2800, Stride: 1}, {Lo: 0xFFFC, Hi: 0xFFFC, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x13441, Hi: 0x13442, Stride: 1}, {Lo: 0x1D159, Hi: 0x1D159, Stride: 1}},
}

// isInvisible reports whether r renders as nothing or only changes how other
// characters look. Spaces and combining marks are allowed: between letters they are
// visible.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, blank)
}

// hasVisible reports whether a name shows anything. Spaces and combining marks alone
// show nothing, nor do unassigned characters.
func hasVisible(name string) bool {
	return strings.ContainsFunc(name, func(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !isInvisible(r) })
}

// LabelSizeMax limits the source and the location of an event, in bytes.
const LabelSizeMax = 320

// IsLabel reports whether text can be the source or the location of an event that a platform
// client names: 1 to LabelSizeMax bytes of UTF-8, something visible and nothing invisible.
func IsLabel(text string) bool {
	return len(text) <= LabelSizeMax && utf8.ValidString(text) && hasVisible(text) && !strings.ContainsFunc(text, isInvisible)
}

// checkName rejects a name that a screen could not show truthfully: one without
// visible characters, or with invisible ones such as bidirectional controls, which let
// one name look like another.
func checkName(field, name string, mayBeEmpty bool) error {
	const hint = "give a short name of ordinary letters, digits and signs"
	if name == "" && !mayBeEmpty {
		return record.Invalid(field, hint, "the name is empty")
	}
	if !utf8.ValidString(name) {
		return record.Invalid(field, hint, "the name is not valid UTF-8")
	}
	if n := utf8.RuneCountInString(name); n > nameRunesMax {
		return record.Invalid(field, hint, "the name has %d characters, more than %d", n, nameRunesMax)
	}
	for _, r := range name {
		if isInvisible(r) {
			return record.Invalid(field, hint, "the name contains the invisible character U+%04X", r)
		}
	}
	if name != "" && !hasVisible(name) {
		return record.Invalid(field, hint, "the name has no visible character")
	}
	return nil
}
