package throttle

import "tollhouse/store/secret"

// Caller is charged for hashing a password on behalf of someone who has proved to be the
// user, by a password or a code.
func (a Attempt) Caller() secret.Caller {
	c := a.caller(a.user(), func(Network) int { return 0 })
	c.Stranger = false
	return c
}

// caller is charged for hashing the password of an attempt. It belongs to the user; to the
// browser or the client, if it is known; and to the networks of the source, each with its
// failures if it is a stranger's. At a client the source matters too: a secret may be used by a thief.
func (a Attempt) caller(user secret.Hash, failures func(Network) int) secret.Caller {
	c := secret.Caller{Stranger: a.Device == "" && a.Client == "", Shares: []secret.Share{{Key: "user " + string(user[:])}}}
	if a.Device != "" {
		c.Shares = append(c.Shares, secret.Share{Key: "browser " + a.Device})
	}
	if a.Client != "" {
		c.Shares = append(c.Shares, secret.Share{Key: "client " + a.Client})
	}
	for n := range Networks(a.Source) {
		share := secret.Share{Key: "source " + a.Client + " " + n.String(), Turns: n.Sources}
		if c.Stranger {
			share.Pass = failures(n)
		}
		c.Shares = append(c.Shares, share)
	}
	return c
}
