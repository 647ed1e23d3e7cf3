package cli

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/alarms"
	"tollhouse/cli/server"
	"tollhouse/cli/term"
	"tollhouse/store/backup/encryption"
	"tollhouse/store/spelling"
)

// A setting comes from its flag, else from its environment variable, else from its
// default. --public-url is TOLLHOUSE_PUBLIC_URL.
//
// Our choice: the flags that describe a client or an account that is being made
// have CLIENT_ or ACCOUNT_ in front (TOLLHOUSE_CLIENT_NAME), because container
// links set TOLLHOUSE_NAME by themselves; and the flags that say what to change
// in an existing client have no variable, because an update changes only what
// its command line says.

const variablePrefix = "TOLLHOUSE_"

// variableKey annotates a flag whose variable is not named after it alone.
const variableKey = "tollhouse_variable"

// variableOf returns the name of a flag's variable, or "" when it has none.
func variableOf(f *pflag.Flag) string {
	if named, ok := f.Annotations[variableKey]; ok {
		return named[0]
	}
	if f.Name == "help" {
		return ""
	}
	return variablePrefix + asVariable(f.Name)
}

func asVariable(flag string) string { return strings.ToUpper(strings.ReplaceAll(flag, "-", "_")) }

// nameVariables puts an infix before the variables of all flags, or takes them
// away when the infix is "".
func nameVariables(flags *pflag.FlagSet, infix string) {
	flags.VisitAll(func(f *pflag.Flag) {
		name := ""
		if infix != "" {
			name = variablePrefix + infix + asVariable(f.Name)
		}
		f.Annotations = map[string][]string{variableKey: {name}}
	})
}

// emptyKey annotates a flag whose empty value means something.
const emptyKey = "tollhouse_empty"

// mayBeEmpty marks flags of an update, which an empty value clears.
func mayBeEmpty(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[emptyKey] = nil
	}
}

// emptyFlag refuses flags that were given an empty value, mostly by a variable of a shell
// that is not set: a command does more without the flag, so it must not count as absent. An
// empty variable of ours does: environment files have lines without a value.
func (p *program) emptyFlag(flags *pflag.FlagSet) (wrong error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if _, may := f.Annotations[emptyKey]; may || !f.Changed || p.fromVariable[f] || wrong != nil {
			return
		}
		isEmpty := func(value string) bool { return strings.Trim(value, ", \t") == "" }
		if f.Value.Type() != "bool" && slices.ContainsFunc(flagValues(f), isEmpty) {
			wrong = term.Usage("give "+aValueOf(f)+", or leave --"+f.Name+" out", "--%s is empty", f.Name)
		}
	})
	return wrong
}

// flagValues returns the values of a flag that may be given several times, or the one of another.
func flagValues(f *pflag.Flag) []string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return []string{f.Value.String()}
}

// aValueOf names what a flag takes, such as "an account".
func aValueOf(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	switch {
	case name == "" || name == "string" || name == "strings" || name == "stringArray":
		return "a value"
	case strings.ContainsRune("aeio", rune(name[0])):
		return "an " + name
	}
	return "a " + name
}

// settle sets flags that were not given from their variables, before every command.
func (p *program) settle(c *cobra.Command, _ []string) error {
	p.fromVariable = map[*pflag.Flag]bool{}
	set := map[string]string{}
	for _, pair := range p.environ {
		if name, value, _ := strings.Cut(pair, "="); value != "" && strings.HasPrefix(name, variablePrefix) {
			set[name] = value
		}
	}
	wrong := p.markedVariable()
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name := variableOf(f)
		value := set[name]
		if f.Changed || value == "" || wrong != nil {
			return
		}
		p.fromVariable[f] = true
		if err := setFlag(c.Flags(), f, value); err != nil {
			wrong = term.Fail(term.ExitConfig, "correct the variable or remove it from the environment", "%s=%q: %s", name, value, valueWanted(f, err))
		}
	})
	if wrong == nil {
		wrong = p.keyInFlags(c.Flags())
	}
	if wrong == nil {
		wrong = p.unexpandedPath(c.Flags())
	}
	data, socket := c.Flags().Lookup("data"), c.Flags().Lookup("admin-socket")
	p.dataGiven = data.Changed
	p.dataMeant = data.Changed && !p.fromVariable[data] && p.fromVariable[socket]
	store := c.Flags().Lookup("store")
	p.store.InFlag = store.Changed && !p.fromVariable[store]
	if wrong == nil {
		wrong = p.emptyFlag(c.Flags())
	}
	if wrong == nil && !strings.HasPrefix(c.CommandPath()+" ", "tollhouse config ") { // which masks them
		wrong = p.secretInFlags(c.Flags())
	}
	p.warnOfUnknown(set)
	if c.Name() != "dev" { // whose socket no other command has yet
		p.Complete = func(text string) string { return server.CompleteCommands(text, p.forServer().At()) }
	}
	return wrong
}

// markedVariable refuses a variable of ours after a byte order mark at the start of an
// environment file: the setting would be ignored.
func (p *program) markedVariable() error {
	for _, pair := range p.environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, term.ByteOrderMark+variablePrefix) {
			return term.Fail(term.ExitConfig, "save the environment file as UTF-8 without a byte order mark", "the name of the variable %s begins with a byte order mark (U+FEFF)", strings.TrimPrefix(name, term.ByteOrderMark))
		}
	}
	return nil
}

// unexpandedPath refuses a path whose first character was meant for a shell: a directory
// of that name would be made in the working directory. Environment files keep quotes, and
// bash expands no ~ after --data=. Around a value they also keep blanks, and the CR of a
// file from Windows.
func (p *program) unexpandedPath(flags *pflag.FlagSet) (wrong error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || !isPath(f) {
			return
		}
		for _, value := range flagValues(f) {
			if wrong == nil && value != "" {
				wrong = p.unexpanded(f, value)
			}
		}
	})
	return wrong
}

func (p *program) unexpanded(f *pflag.Flag, value string) error {
	reason := ""
	switch value[0] {
	case '"', '\'':
		reason = "the quote would be part of the path"
	case '~':
		reason = "only a shell expands ~"
	case '$':
		reason = "only a shell expands variables"
	default:
		if p.fromVariable[f] && strings.TrimSpace(value) != value {
			return term.Fail(term.ExitConfig, fmt.Sprintf("remove it; a path that has it can be given with --%s", f.Name),
				"%s=%q: the white space around it would be part of the path", variableOf(f), value)
		}
		return nil
	}
	hint := "write the whole path, without quotes; ./ in front allows such a name"
	if p.fromVariable[f] {
		return term.Fail(term.ExitConfig, hint, "%s=%s: %s", variableOf(f), value, reason)
	}
	return term.Usage(hint, "--%s %s: %s", f.Name, value, reason)
}

// isPath reports whether a flag takes the path of a file or a directory.
func isPath(f *pflag.Flag) bool {
	name, _ := pflag.UnquoteUsage(f)
	return name == "file" || name == "directory" || name == "path"
}

// secretInFlags refuses a flag whose value is a URL with a password: other users of this
// machine can read command lines. The store has its own check, of parameters too.
func (p *program) secretInFlags(flags *pflag.FlagSet) (wrong error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || p.fromVariable[f] || f.Name == "store" || wrong != nil {
			return
		}
		for _, value := range flagValues(f) {
			if f.Name == server.AlarmFlag && alarms.IsSecret(value) {
				wrong = term.Usage("put it into "+variableOf(f)+", or into a file named by --"+f.Name+"-file", "--%s contains a secret, which other users of this machine can read", f.Name)
				return
			}
			if !hasCredentials(value) && !(takesURL(f) && term.MaskedURL(value) != value) {
				continue
			}
			next := "leave it out"
			if name := variableOf(f); name != "" {
				next = "put it into " + name
			}
			if flags.Lookup(f.Name+"-file") != nil {
				next += ", or into a file named by --" + f.Name + "-file"
			}
			wrong = term.Usage(next, "--%s contains a user or a password, which other users of this machine can read", f.Name)
		}
	})
	return wrong
}

// keyInFlags refuses a secret key in place of a value, and does not repeat it.
func (p *program) keyInFlags(flags *pflag.FlagSet) (wrong error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || wrong != nil || !slices.ContainsFunc(flagValues(f), encryption.IsSecret) {
			return
		}
		hint := "give the public key of a recipient, age1…, and keep the secret key away from the server"
		if isPath(f) {
			hint = "name a file that has the key"
		}
		wrong = term.Usage(hint, "--%s was given a secret key", f.Name)
	})
	return wrong
}

// takesURL reports whether a flag takes a URL, so that what precedes an @ is a user and a
// password even without a scheme, or with a wrong one.
func takesURL(f *pflag.Flag) bool {
	name, _ := pflag.UnquoteUsage(f)
	return name == "URL" || name == "URI"
}

// hasCredentials reports whether a text is a web URL with a user or a password. In one that
// cannot be parsed, a password may have a slash.
func hasCredentials(text string) bool {
	scheme, rest, found := strings.Cut(text, "://")
	if scheme = strings.ToLower(scheme); !found || scheme != "http" && scheme != "https" {
		return false
	}
	u, err := url.Parse(text)
	if err != nil {
		return strings.Contains(rest, "@")
	}
	return u.User != nil
}

// setFlag sets a flag as if it had been given. A list in a variable is
// separated by white space.
func setFlag(flags *pflag.FlagSet, f *pflag.Flag, value string) error {
	values := []string{value}
	if _, list := f.Value.(pflag.SliceValue); list {
		values = strings.Fields(value)
	}
	for _, v := range values {
		if err := f.Value.Set(v); err != nil {
			return err
		}
		f.Changed = true
	}
	return nil
}

// valueWanted says what value a flag takes. The errors of strconv name its functions,
// which mean nothing to users.
func valueWanted(f *pflag.Flag, err error) string {
	var number *strconv.NumError
	switch {
	case !errors.As(err, &number):
		return err.Error()
	case f.Value.Type() == "bool":
		return "give true or false"
	case errors.Is(err, strconv.ErrRange):
		return "give a smaller number"
	}
	return "give a whole number"
}

// warnOfUnknown only warns of unknown TOLLHOUSE_ variables, because container links
// set such names.
func (p *program) warnOfUnknown(set map[string]string) {
	if len(set) == 0 {
		return // building all commands takes time
	}
	known := map[string]bool{}
	whole := (&program{}).rootCommand() // another one: defining a flag sets it
	everyFlag(whole, func(f *pflag.Flag) { known[strings.TrimPrefix(variableOf(f), variablePrefix)] = true })
	for _, name := range helperVariables {
		known[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		rest := strings.TrimPrefix(name, variablePrefix)
		if known[rest] || isServiceLink(rest, set[name]) {
			continue
		}
		near := ""
		if nearest, ok := spelling.Nearest(rest, slices.Values(slices.Sorted(maps.Keys(known)))); ok {
			near = fmt.Sprintf("; did you mean %s%s?", variablePrefix, nearest)
		}
		p.Note("warning: the variable %s is not a setting%s", name, near)
	}
}

// serviceLink is the form of variables that Kubernetes and Docker set in each container for a
// service named tollhouse, or tollhouse-metrics, and for its ports.
var serviceLink = regexp.MustCompile(`^(?:[A-Z0-9_]+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_[A-Z0-9_]+)?|PORT_[0-9]+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)$`)

// isServiceLink reports whether a variable is of a service. PORT is one only with a URL, such
// as tcp://10.0.0.1:80.
func isServiceLink(name, value string) bool {
	return serviceLink.MatchString(name) || strings.HasSuffix("_"+name, "_PORT") && strings.Contains(value, "://")
}

func everyFlag(c *cobra.Command, visit func(*pflag.Flag)) {
	c.LocalFlags().VisitAll(visit)
	for _, sub := range c.Commands() {
		everyFlag(sub, visit)
	}
}
