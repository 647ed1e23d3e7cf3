package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// startedOnce is how long a process took from its start to its ready line, where
// it has one, and to its first answer, and the processor time that it had used by
// then; and how long a script took that started it and asked by curl, 0 where there
// is none.
type startedOnce struct{ line, answer, cpu, script time.Duration }

// starter is a way to start a server, with what was measured of it.
type starter struct {
	name    string
	path    string // that is asked first
	command func(address, dir string) []string
	tells   bool // its first line on standard output is JSON, with its url; else it is asked until it answers
	rounds  []startedOnce
	idle    int64 // bytes of anonymous memory, at rest
}

const (
	// restTime is how long a server is left alone before its memory is read.
	restTime = 5 * time.Second
	// askEvery is between two tries to reach a server that does not tell when it
	// answers, and answerWaitMax ends them.
	askEvery      = 200 * time.Microsecond
	answerWaitMax = 20 * time.Second
)

// runReady measures how soon a throwaway instance answers, next to the floor that
// answers nothing, and how soon one does on a fresh directory, next to PocketBase
// if it can be built here. All are processes of their own, started in turn, so
// that whatever else the machine does falls on all alike. Only the throwaway ones
// and the floor tell when they are ready; the other two are started at the same
// kind of address and asked in the same way until they answer.
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
		{name: "floor: bare handler", path: "/empty", tells: true,
			command: func(address, _ string) []string { return []string{bare, address} }},
		{name: "tollhouse dev", path: "/healthz", tells: true,
			command: func(address, _ string) []string { return []string{binary, "dev", "--listen", address} }},
		{name: "tollhouse serve, fresh directory", path: "/healthz",
			command: func(address, dir string) []string {
				return []string{binary, "serve", "--data", dir, "--listen", address}
			}},
	}
	if pocketBase, err := builtPocketBase(context.Background(), dir); err == nil {
		starters = append(starters, &starter{name: "PocketBase serve, fresh directory", path: "/api/health",
			command: func(address, dir string) []string {
				return []string{pocketBase, "serve", "--dir", dir, "--http", address}
			}})
	} else {
		fmt.Printf("left out: PocketBase %s: %s\n", pocketBaseVersion, err)
	}
	for round := range s.ready {
		for i := range starters {
			st := starters[(round+i)%len(starters)]
			if round%2 == 1 { // or each would always run behind the same one
				st = starters[(round+len(starters)-i)%len(starters)]
			}
			once, _, err := st.once(dir, 0)
			if err == nil {
				once.script, err = st.byScript(dir)
			}
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", st.name, round+1, err)
			}
			st.rounds = append(st.rounds, once)
		}
	}
	for _, st := range starters {
		if _, st.idle, err = st.once(dir, restTime); err != nil {
			return fmt.Errorf("%s, at rest: %w", st.name, err)
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
	// With cgo a program over net/http is linked to the C library when it starts,
	// which takes a third of the floor's time.
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", folder, err)
	}
	return path, nil
}

// once starts the server with a directory of its own below dir, has it answer,
// and returns its anonymous memory after a rest, if there is to be one.
func (st *starter) once(dir string, rest time.Duration) (o startedOnce, idle int64, err error) {
	own, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return o, 0, err
	}
	defer os.RemoveAll(own)
	address, err := freeAddress()
	if err != nil {
		return o, 0, err
	}
	command := st.command(address, filepath.Join(own, "fresh"))
	begun := time.Now()
	s, url := (*server)(nil), "http://"+address
	if st.tells {
		if s, err = start(command[0], command[1:]...); err != nil {
			return o, 0, err
		}
		o.line, url = time.Since(begun), s.text("url")
	} else if s, err = begin(command[0], command[1:]...); err != nil {
		return o, 0, err
	}
	defer s.stop()
	if st.tells {
		o.cpu = s.cpuOfThreads()
	}
	err = untilAnswer(url+st.path, begun.Add(answerWaitMax), st.tells)
	o.answer = time.Since(begun)
	if !st.tells {
		o.cpu = s.cpuOfThreads()
	}
	if err == nil && rest > 0 {
		time.Sleep(rest)
		idle, err = s.anonymousMemory()
	}
	return o, idle, err
}

// askingScript starts a server and asks it until it answers, as pipelines do.
const askingScript = `"$@" >/dev/null 2>&1 & server=$!; until curl -sf -o /dev/null "$ASKED"; do :; done; echo; kill $server; wait $server`

// byScript returns how long a script takes to have its first answer, the start of
// its own shell and of curl included.
func (st *starter) byScript(dir string) (took time.Duration, err error) {
	if _, err := exec.LookPath("curl"); err != nil {
		return 0, nil
	}
	own, err := os.MkdirTemp(dir, "data-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(own)
	address, err := freeAddress()
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithTimeout(context.Background(), answerWaitMax)
	defer stop()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", askingScript, "sh"}, st.command(address, filepath.Join(own, "fresh"))...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the server ends with its script
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), "ASKED=http://"+address+st.path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	took = time.Since(begun)
	_ = cmd.Wait() // its status is that of the server that it kills
	return took, err
}

// untilAnswer asks until there is an answer, or once if there must be one.
func untilAnswer(url string, deadline time.Time, once bool) error {
	for {
		answer, err := http.Get(url)
		if err != nil {
			if once || time.Now().After(deadline) {
				return err
			}
			time.Sleep(askEvery)
			continue
		}
		_, err = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s answered %s", url, answer.Status)
		}
		return err
	}
}

// freeAddress is a loopback address without a listener.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// anonymousMemory returns RssAnon of proc_pid_status(5), in bytes: what the
// process holds that no file could give again.
func (s *server) anonymousMemory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), "RssAnon:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(line, "kB")), 10, 64)
	if !found || err != nil {
		return 0, fmt.Errorf("no RssAnon in the status of the process: %w", err)
	}
	return kib << 10, nil
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
	fmt.Fprintln(t, "what\tready line (min–max)\tfirst answer (min–max)\tCPU\tby sh and curl (min–max)\tline\tanswer\tCPU\tsh and curl\tanonymous memory at rest")
	line := func(o startedOnce) time.Duration { return o.line }
	answer := func(o startedOnce) time.Duration { return o.answer }
	cpu := func(o startedOnce) time.Duration { return o.cpu }
	script := func(o startedOnce) time.Duration { return o.script }
	for _, st := range starters {
		toLine, againstLine, againstCPU := "–", "–", "–"
		if st.tells { // else its processor time is that to the answer
			toLine, againstLine, againstCPU = st.spread(line), st.against(floor, line), st.against(floor, cpu)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.1f MiB\n", st.name, toLine, st.spread(answer), inMillis(st.median(cpu)), st.spread(script),
			againstLine, st.against(floor, answer), againstCPU, st.against(floor, script), float64(st.idle)/(1<<20))
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
