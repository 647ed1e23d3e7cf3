package record

// Names and ids are checked byte by byte instead of with regular expressions:
// compiling those at startup took longer than opening a store.

// IsWord reports whether text has 1 to sizeMax bytes of a-z, 0-9 and _, the
// first a letter.
func IsWord(text string, sizeMax int) bool {
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

// IsTag reports whether text has 1 to sizeMax bytes of a-z, A-Z, 0-9, _ and -.
func IsTag(text string, sizeMax int) bool {
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

const accountSizeMax = 64

// CheckAccountID returns nil, or an [*InvalidError] if id is not the id of an account: 1 to 64
// bytes of a-z, 0-9, _ and -, the first a letter or a digit. It does not look for the account.
func CheckAccountID(id string) error {
	if IsTag(id, accountSizeMax) && !hasUpper(id) && id[0] != '_' && id[0] != '-' {
		return nil
	}
	return Invalid("account", "use a name such as acct_larkspur", "an account id has 1 to 64 characters from a-z, 0-9, _ and -, and starts with a letter or digit")
}
