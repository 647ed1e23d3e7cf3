package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tollhouse/cli/alarms"
	"tollhouse/cli/database"
	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/spelling"
)

// alarmFlags are the settings of alarms. None is stored.
type alarmFlags struct {
	urls   []string
	file   string
	every  term.Duration
	repeat term.Duration
	mute   []string
	size   datadir.Memory
}

// alarmConfig holds the parsed and checked flags.
type alarmConfig struct {
	targets []*alarms.Target
	every   time.Duration
	repeat  time.Duration
	muted   []string
	size    uint64 // bytes; 0 is never
}

// The limits of the settings.
const (
	alarmsMax      = 10
	alarmEveryMin  = time.Second
	alarmEveryMax  = 10 * time.Minute
	alarmRepeatMin = time.Minute
	alarmRepeatMax = 7 * 24 * time.Hour
)

// AlarmFlag is the flag whose values are URLs that may be secrets.
const AlarmFlag = "alarm"

func (f *alarmFlags) add(flags *pflag.FlagSet) {
	f.every, f.repeat = term.Duration(30*time.Second), term.Duration(24*time.Hour)
	flags.StringArrayVar(&f.urls, AlarmFlag, nil, "send alarms to this `URL`: ntfy://, gotify://, slack://, discord://, telegram://, matrix://, generic+https:// or smtp://; may be given several times")
	flags.StringVar(&f.file, "alarm-file", "", "`file` with more such URLs, one a line, which may be secret")
	flags.Var(&f.every, "alarm-every", "how often to check for alarms, from 1s to 10m")
	flags.Var(&f.repeat, "alarm-repeat", "how often to repeat an alarm while it lasts, from 1m to 7d; 0 for never")
	flags.StringArrayVar(&f.mute, "alarm-mute", nil, "send no alarms with this `name`; may be given several times")
	flags.Var(&f.size, "alarm-size", "warn when the store uses more than this, such as 50GiB; 0 for never")
}

func (f *alarmFlags) parse() (c alarmConfig, err error) {
	c.every, c.repeat, c.size = time.Duration(f.every), time.Duration(f.repeat), uint64(max(f.size, 0))
	if c.every < alarmEveryMin || c.every > alarmEveryMax {
		return c, term.Usage("give 1s to 10m", "--alarm-every %s is out of range", &f.every)
	}
	if c.repeat != 0 && (c.repeat < alarmRepeatMin || c.repeat > alarmRepeatMax) {
		return c, term.Usage("give 1m to 7d, or 0 for never", "--alarm-repeat %s is out of range", &f.repeat)
	}
	for _, name := range term.SplitLists(f.mute) {
		if !slices.Contains(alarmNames(), name) {
			hint := "the names are " + strings.Join(alarmNames(), ", ")
			if nearest, ok := spelling.Nearest(name, slices.Values(alarmNames())); ok {
				hint = "did you mean " + nearest + "?"
			}
			return c, term.Usage(hint, "--alarm-mute %q is not the name of an alarm", name)
		}
		c.muted = append(c.muted, name)
	}
	return c, f.parseURLs(&c)
}

// parseURLs reads the URLs. No error repeats one.
func (f *alarmFlags) parseURLs(c *alarmConfig) error {
	urls := f.urls
	if err := c.add(urls, func(i int) string { return fmt.Sprintf("the URL number %d of --%s", i+1, AlarmFlag) }); err != nil {
		return err
	}
	if f.file == "" {
		return nil
	}
	text, err := database.ReadURL("--alarm-file", "receiver of alarms", f.file)
	if err != nil {
		return err
	}
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return term.Usage("write one URL a line into it", "the file of --alarm-file has no URL")
	}
	return c.add(lines, func(i int) string { return fmt.Sprintf("the URL number %d in the file of --alarm-file", i+1) })
}

func (c *alarmConfig) add(urls []string, name func(i int) string) error {
	for i, text := range urls {
		t, err := alarms.Parse(text)
		if err != nil {
			return term.Usage("correct it; docs/operations.md shows how each is spelled", "%s is not valid: %w", name(i), err)
		}
		if !slices.ContainsFunc(c.targets, t.Is) {
			c.targets = append(c.targets, t)
		}
	}
	if len(c.targets) > alarmsMax {
		return term.Usage("leave some out", "alarms go to %d URLs at most, not %d", alarmsMax, len(c.targets))
	}
	return nil
}

// alarmNames are the names of all alarms.
func alarmNames() []string {
	var names []string
	for _, r := range slices.Concat(rows, happenings) {
		if r.isSent() && !slices.Contains(names, r.check) {
			names = append(names, r.check)
		}
	}
	slices.Sort(names)
	return names
}
