package term

import (
	"net/url"
	"strings"
)

// MaskedURL is a URL as an error may repeat it: without the user and the password, which it may
// have even if it is not a valid URL.
func MaskedURL(text string) string {
	if u, err := url.Parse(text); err == nil && u.User == nil && u.Host != "" {
		return text // an @ is in the path
	}
	scheme, rest, found := strings.Cut(text, "://")
	if found {
		scheme += "://"
	} else {
		scheme, rest = "", text
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		return scheme + "xxxxx" + rest[at:]
	}
	return text
}
