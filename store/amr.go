package store

import "tollhouse/store/record"

// Amr is how a user signed in (RFC 8176): with the password alone, or with a second factor too.
type Amr byte

const (
	AmrUnknown     Amr = iota // nobody signed in here, or before this was kept
	AmrPassword               // the password alone
	AmrCode                   // and a code of an app, or a recovery code
	AmrHardwareKey            // and a passkey that is bound to its device
	AmrSoftwareKey            // and a passkey that may be synchronized
	amrEnd
)

// HasFactor reports whether a second factor was proved.
func (a Amr) HasFactor() bool { return a > AmrPassword }

// Values returns the values of RFC 8176 §2, or nil if nothing is known.
func (a Amr) Values() []string {
	switch a {
	case AmrPassword:
		return []string{"pwd"}
	case AmrCode:
		return []string{"pwd", "otp", "mfa"}
	case AmrHardwareKey:
		return []string{"pwd", "hwk", "mfa"}
	case AmrSoftwareKey:
		return []string{"pwd", "swk", "mfa"}
	}
	return nil
}

// decodeAmr reads what is written only if it is known.
func decodeAmr(d *record.Decoder) Amr {
	a := Amr(d.Byte())
	if a == AmrUnknown || a >= amrEnd {
		d.Fail("has an unknown kind of sign-in")
	}
	return a
}
