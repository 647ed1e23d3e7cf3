package snapshot

import (
	"regexp"
	"unicode/utf8"
)

// metadata is the field of the specification's four kinds for data of the platform's own. Its
// limits are those of Stripe, which the code of many platforms keeps already.
const (
	metadata            = "metadata"
	metadataMembersMax  = 50
	metadataValueMax    = 500 // characters
	metadataNamePattern = `^[^\[\]\x00-\x1f\x7f-\x9f]{1,40}$`
)

var metadataName = regexp.MustCompile(metadataNamePattern)

// checkMetadata checks the members of metadata in a body. Null members, which remove one in
// a patch, do not count, and may have any name: an import may have brought one that is refused now.
func checkMetadata(v Value) error {
	count := 0
	for _, m := range v.members {
		path, of := metadata, "a value in metadata"
		if Quote(m.Name) != "" { // not a card number or a secret
			path = join(metadata, m.Name)
			of = path
		}
		switch {
		case m.Value.kind == Null:
			continue
		case !metadataName.MatchString(m.Name):
			return fault(InvalidField, metadata, "a name in metadata must have 1 to 40 characters, without [, ] and control characters")
		case m.Value.kind == Number:
			return fault(InvalidField, path, "%s must be a string, not a number; write it as a text, in quotation marks", of)
		case m.Value.kind != String:
			return fault(InvalidField, path, "%s must be a string, not %s", of, m.Value.kind)
		case utf8.RuneCountInString(m.Value.text) > metadataValueMax:
			return fault(InvalidField, path, "%s must have at most %d characters", of, metadataValueMax)
		}
		count++
	}
	return checkCount(count)
}

func checkCount(members int) error {
	if members > metadataMembersMax {
		return fault(InvalidField, metadata, "metadata must have at most %d members, not %d", metadataMembersMax, members)
	}
	return nil
}

// CheckMerged checks what a patch made of a resource: its metadata may be full now. One that
// was larger before, in imported history, may shrink. Errors: *Error with InvalidField.
func (r Rules) CheckMerged(kind string, before, after Value) error {
	if r.fieldsOf(kind) == nil {
		return nil
	}
	was, _ := before.Member(metadata)
	is, _ := after.Member(metadata)
	if len(is.members) <= len(was.members) {
		return nil
	}
	return checkCount(len(is.members))
}
