package server

import (
	"github.com/spf13/pflag"

	"tollhouse/handlers/web"
)

// platformFlags say whether and from where platform clients may be used. None is stored.
type platformFlags struct {
	on   string
	from []string
}

func (f *platformFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.on, "platform", "on", "platform clients: on, or off to give them no token and refuse those they have")
	flags.StringArrayVar(&f.from, "platform-from", nil, "`networks` from which platform clients can be used, separated by commas, or loopback (default: any address)")
}

// parse returns nil if platform clients are off.
func (f *platformFlags) parse() (*web.Platform, error) {
	on, err := parseOn("platform", f.on)
	if err != nil {
		return nil, err
	}
	from, err := parseFrom("platform-from", f.from)
	if err != nil || !on {
		return nil, err
	}
	return &web.Platform{From: from}, nil
}
