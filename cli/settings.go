package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tollhouse/cli/term"
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

// settle sets flags that were not given from their variables, before every command.
func (p *program) settle(c *cobra.Command, _ []string) error {
	p.fromVariable = map[*pflag.Flag]bool{}
	set := map[string]string{}
	for _, pair := range p.environ {
		if name, value, _ := strings.Cut(pair, "="); value != "" && strings.HasPrefix(name, variablePrefix) {
			set[name] = value
		}
	}
	var wrong error
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
	data, socket := c.Flags().Lookup("data"), c.Flags().Lookup("admin-socket")
	p.dataGiven = data.Changed
	p.dataMeant = data.Changed && !p.fromVariable[data] && p.fromVariable[socket]
	store := c.Flags().Lookup("store")
	p.store.InFlag = store.Changed && !p.fromVariable[store]
	if p.data == "" && wrong == nil {
		// A script's variable that nobody has set must not mean the directory in
		// which it runs.
		wrong = term.Usage("name a directory, or leave --data out", "--data is empty")
	}
	p.warnOfUnknown(set)
	return wrong
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
	whole := (&program{}).rootCommand() // another one: to define a flag sets it
	everyFlag(whole, func(f *pflag.Flag) { known[strings.TrimPrefix(variableOf(f), variablePrefix)] = true })
	for _, name := range helperVariables {
		known[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		rest := strings.TrimPrefix(name, variablePrefix)
		if known[rest] {
			continue
		}
		near := ""
		if nearest, ok := spelling.Nearest(rest, slices.Values(slices.Sorted(maps.Keys(known)))); ok {
			near = fmt.Sprintf("; did you mean %s%s?", variablePrefix, nearest)
		}
		p.Note("warning: the variable %s is not a setting%s", name, near)
	}
}

func everyFlag(c *cobra.Command, visit func(*pflag.Flag)) {
	c.LocalFlags().VisitAll(visit)
	for _, sub := range c.Commands() {
		everyFlag(sub, visit)
	}
}
