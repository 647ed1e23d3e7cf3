// Command scale makes the table of docs/scale.md from figures that were measured, and from a
// reader's own:
//
//	cd bench && go run ./scale -events-per-merchant 200 -event-bytes 900
//
// It measures nothing: the rates and the bytes on disk are what a run of bench or an import
// on your machines has shown.
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
)

// figures are what the table follows from.
type figures struct {
	eventsPerMerchant float64 // a day
	eventBytes        float64 // of one event, as JSON
	peak              float64 // the busiest second, in average seconds
	share             float64 // of the measured rate that the busiest second may need
	months            float64 // that events are kept
	disk              float64 // bytes that the data of one directory or database may take

	directoryRate  float64 // events a second that one directory has recorded
	databaseRate   float64 // the same of one database
	directoryBytes float64 // on disk for each byte of an event, in a directory
	databaseBytes  float64 // the same in PostgreSQL, with its index
}

// flagsOf defines the flags. Their defaults are those of docs/scale.md, which says where the
// measured ones come from.
func (f *figures) flagsOf(flags *flag.FlagSet) {
	flags.Float64Var(&f.eventsPerMerchant, "events-per-merchant", 200, "events of a merchant in a day")
	flags.Float64Var(&f.eventBytes, "event-bytes", 900, "bytes of an event as JSON")
	flags.Float64Var(&f.peak, "peak", 10, "events in the busiest second, where an average one has 1")
	flags.Float64Var(&f.share, "share", 0.5, "part of the measured rate that the busiest second may need")
	flags.Float64Var(&f.months, "months", 12, "months that events are kept")
	flags.Float64Var(&f.disk, "disk", 2e12, "bytes that the data of one directory or database may take")
	flags.Float64Var(&f.directoryRate, "directory-rate", 7228, "events a second that one directory has recorded")
	flags.Float64Var(&f.databaseRate, "database-rate", 1126, "events a second that one database has recorded")
	flags.Float64Var(&f.directoryBytes, "directory-bytes", 0.80, "bytes on disk for each byte of an event, in a directory")
	flags.Float64Var(&f.databaseBytes, "database-bytes", 4.09, "the same in PostgreSQL, with its index")
}

const (
	daySeconds = 24 * 60 * 60
	monthDays  = 30

	serversPerCell   = 2 // so that one may be lost or upgraded
	databasesPerCell = 2 // a primary and a synchronous standby
)

var merchants = []float64{100, 1_000, 10_000, 100_000, 1_000_000}

// row is what a number of merchants needs.
type row struct {
	merchants, eventsADay, peak float64
	directoryMonth              float64 // bytes
	databaseMonth               float64
	directory                   bool // is enough
	cells                       float64
	first                       string // what gives out first
}

func (f figures) row(merchants float64) row {
	r := row{merchants: merchants, eventsADay: merchants * f.eventsPerMerchant}
	r.peak = r.eventsADay / daySeconds * f.peak
	month := r.eventsADay * monthDays * f.eventBytes
	r.directoryMonth, r.databaseMonth = month*f.directoryBytes, month*f.databaseBytes
	byRate := r.peak / (f.databaseRate * f.share)
	byDisk := r.databaseMonth * f.months / f.disk
	r.directory = r.peak <= f.directoryRate*f.share && r.directoryMonth*f.months <= f.disk
	r.cells = math.Max(1, math.Ceil(math.Max(byRate, byDisk)))
	if r.first = "writes"; byDisk > byRate {
		r.first = "disk"
	}
	return r
}

func (f figures) print(w io.Writer) {
	fmt.Fprintln(w, "| merchants | events a day | busiest second | a month in a directory | a month in a database | one directory | databases | machines | gives out first |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	for _, n := range merchants {
		r := f.row(n)
		enough := "too small"
		if r.directory {
			enough = "enough"
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", count(r.merchants), count(r.eventsADay), count(math.Ceil(r.peak)),
			size(r.directoryMonth), size(r.databaseMonth), enough, count(r.cells), count(r.cells*(serversPerCell+databasesPerCell)), r.first)
	}
}

// count writes a whole number with commas.
func count(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func size(bytes float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB", "PB"}
	for bytes >= 1000 && len(units) > 1 {
		bytes, units = bytes/1000, units[1:]
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", bytes), ".0") + " " + units[0]
}

func main() {
	var f figures
	f.flagsOf(flag.CommandLine)
	flag.Parse()
	for _, n := range []float64{f.eventsPerMerchant, f.eventBytes, f.peak, f.share, f.months, f.disk, f.directoryRate, f.databaseRate, f.directoryBytes, f.databaseBytes} {
		if !(n > 0) || flag.NArg() > 0 {
			fmt.Fprintln(os.Stderr, "scale: give numbers above 0; go run ./scale -help lists them")
			os.Exit(2)
		}
	}
	f.print(os.Stdout)
}
