package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// startedOnce is how long a process took from its start to its ready line, and
// to its first answer, and the processor time that it had used by then.
type startedOnce struct{ line, answer, cpu time.Duration }

// starter is a way to start a server, with what was measured of it.
type starter struct {
	name   string
	path   string // that is asked first
	start  func() (*server, error)
	rounds []startedOnce
}

// runReady measures how soon a throwaway instance answers, beside the floor that
// answers nothing. Both are processes of their own, started in turn, so that
// whatever else the machine does falls on both alike.
func runReady(s settings) error {
	dir, err := os.MkdirTemp("", "tollhouse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bare, err := builtBinary("", "./bare", dir)
	if err != nil {
		return err
	}
	binary, err := builtBinary(s.binary, "..", dir)
	if err != nil {
		return err
	}
	starters := []*starter{
		{name: "floor: bare handler", path: "/empty", start: func() (*server, error) { return start(bare) }},
		{name: "tollhouse dev", path: "/healthz", start: func() (*server, error) { return start(binary, "dev") }},
	}
	for round := range s.ready {
		for i := range starters {
			st := starters[(round+i)%len(starters)]
			once, err := st.once()
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", st.name, round+1, err)
			}
			st.rounds = append(st.rounds, once)
		}
	}
	printReady(os.Stdout, starters)
	return nil
}

// builtBinary is the binary that was named, or one built from a folder, as it is
// shipped.
func builtBinary(named, folder, dir string) (string, error) {
	if named != "" {
		return named, nil
	}
	path := filepath.Join(dir, "built-"+filepath.Base(folder))
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, ".")
	build.Dir, build.Stderr = folder, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", folder, err)
	}
	return path, nil
}

func (st *starter) once() (o startedOnce, err error) {
	begun := time.Now()
	s, err := st.start()
	if err != nil {
		return o, err
	}
	defer s.stop()
	o.line = time.Since(begun)
	o.cpu = s.cpuOfThreads()
	answer, err := http.Get(s.text("url") + st.path)
	if err != nil {
		return o, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	o.answer = time.Since(begun)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", st.path, answer.Status)
	}
	return o, err
}

// cpuOfThreads returns the processor time of the process in nanoseconds, where
// /proc/PID/stat counts hundredths of a second; 0 where the kernel does not tell.
func (s *server) cpuOfThreads() (sum time.Duration) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", s.cmd.Process.Pid))
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			continue
		}
		line, _ := bufio.NewReader(file).ReadString('\n')
		_ = file.Close()
		first, _, _ := strings.Cut(line, " ")
		spent, _ := strconv.ParseInt(first, 10, 64)
		sum += time.Duration(spent)
	}
	return sum
}

func printReady(w io.Writer, starters []*starter) {
	floor := starters[0]
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tready line (min–max)\tfirst answer (min–max)\tCPU to the line\tline\tanswer\tCPU")
	line := func(o startedOnce) time.Duration { return o.line }
	answer := func(o startedOnce) time.Duration { return o.answer }
	cpu := func(o startedOnce) time.Duration { return o.cpu }
	for _, st := range starters {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", st.name, st.spread(line), st.spread(answer), inMillis(st.median(cpu)),
			st.against(floor, line), st.against(floor, answer), st.against(floor, cpu))
	}
	_ = t.Flush()
}

func (st *starter) sorted(of func(startedOnce) time.Duration) []time.Duration {
	times := make([]time.Duration, len(st.rounds))
	for i, o := range st.rounds {
		times[i] = of(o)
	}
	slices.Sort(times)
	return times
}

func (st *starter) median(of func(startedOnce) time.Duration) time.Duration {
	return st.sorted(of)[len(st.rounds)/2]
}

func (st *starter) spread(of func(startedOnce) time.Duration) string {
	times := st.sorted(of)
	return fmt.Sprintf("%s (%s–%s)", inMillis(st.median(of)), inMillis(times[0]), inMillis(times[len(times)-1]))
}

func (st *starter) against(floor *starter, of func(startedOnce) time.Duration) string {
	return fmt.Sprintf("%.2f ×", float64(st.median(of))/float64(max(floor.median(of), 1)))
}

func inMillis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
