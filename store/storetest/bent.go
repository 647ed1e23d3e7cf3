package storetest

import "strings"

// Bent returns a sealed text, a token or a key with one character in its middle replaced by
// another. It never returns the text itself, and keeps to the alphabets of base64 and
// Bech32, whose letters are all of one case.
func Bent(text string) string {
	letters := "qp"
	if text == strings.ToUpper(text) {
		letters = "QP"
	}
	i := len(text) / 2
	other := letters[:1]
	if text[i:i+1] == other {
		other = letters[1:]
	}
	return text[:i] + other + text[i+1:]
}
