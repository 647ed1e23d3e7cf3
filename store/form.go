package store

// The forms of names and ids. They are judged letter by letter rather than by
// regular expressions, of which each would have to be compiled whenever any
// command starts: all of them together took longer than to open a store.

// isWord reports whether text has 1 to sizeMax bytes of a-z, 0-9 and _, the
// first a letter.
func isWord(text string, sizeMax int) bool {
	if len(text) == 0 || len(text) > sizeMax || !isLower(text[0]) {
		return false
	}
	for i := range len(text) {
		if c := text[i]; !isLower(c) && !isDigit(c) && c != '_' {
			return false
		}
	}
	return true
}

// isTag reports whether text has 1 to sizeMax bytes of a-z, A-Z, 0-9, _ and -.
func isTag(text string, sizeMax int) bool {
	if len(text) == 0 || len(text) > sizeMax {
		return false
	}
	for i := range len(text) {
		if c := text[i]; !isLower(c) && !isUpper(c) && !isDigit(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// hasUpper reports whether text holds one of A-Z.
func hasUpper(text string) bool {
	for i := range len(text) {
		if isUpper(text[i]) {
			return true
		}
	}
	return false
}

func isLower(c byte) bool { return 'a' <= c && c <= 'z' }
func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }
