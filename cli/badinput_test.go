package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"tollhouse/cli/datadir"
	"tollhouse/cli/term"
	"tollhouse/store/backup"
	"tollhouse/store/kv"
	"tollhouse/store/storetest/must"
)

// Bad input is told clearly, with the right exit code, and changes nothing: the
// data directory is compared byte for byte before and after.

// formatNow is the format of the stores that this tollhouse writes.
const formatNow = 1

// runHere runs a command in this process, for inputs of which there are thousands.
func runHere(stdin []byte, args ...string) (stderr string, code int) {
	var out, errs bytes.Buffer
	p := &program{Console: term.Console{In: bytes.NewReader(stdin), Out: &out, Err: &errs}}
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errs)
	code = p.Report(root.ExecuteContext(context.Background()))
	return errs.String(), code
}

// liveDirectory makes a data directory with an account in it, and a small backup
// of that.
func liveDirectory(t *testing.T) (dir, file string) {
	t.Helper()
	root := t.TempDir()
	liveFiles.copyTo(t, root, func(root string) {
		tollhouse(t, "account", "create", "acct_a", "--data", filepath.Join(root, "data"))
		tollhouse(t, "backup", filepath.Join(root, "file"), "--data", filepath.Join(root, "data"))
	})
	return filepath.Join(root, "data"), filepath.Join(root, "file")
}

var liveFiles madeOnce

// contentOf is every file below dir, without its time, but for the lock, which tells who
// came last.
func contentOf(t testing.TB, dir string) map[string]must.File {
	t.Helper()
	files := must.Files(t, dir)
	for path, f := range files {
		f.Modified = time.Time{}
		if files[path] = f; filepath.Base(path) == datadir.LockName {
			delete(files, path)
		}
	}
	return files
}

// sameContent holds a directory to what it was.
func sameContent(t *testing.T, what, dir string, before map[string]must.File) {
	t.Helper()
	if changed := must.Unlike(before, contentOf(t, dir)); len(changed) > 0 {
		t.Errorf("%s has changed %v", what, changed)
	}
}

func stillThere(t *testing.T, dir string) {
	t.Helper()
	if out, stderr, code := run(t, "account", "list", "--data", dir, "--json"); code != term.ExitOK || strings.Count(out, "\n") != 1 || !strings.Contains(out, "acct_a") {
		t.Errorf("account list afterwards: exit %d, %s, %s", code, out, stderr)
	}
}

// complaint is what a command must say of its input.
type complaint struct {
	code       int
	says, hint string
}

func (r complaint) judge(t *testing.T, what, stderr string, code int) {
	t.Helper()
	if code != r.code || !strings.Contains(stderr, "tollhouse: error: ") || !strings.Contains(stderr, r.says) || !strings.Contains(stderr, "tollhouse: hint: ") || !strings.Contains(stderr, r.hint) {
		t.Errorf("%s: exit %d, %s; want %d, %q and %q", what, code, stderr, r.code, r.says, r.hint)
	}
}

// Promise (Backup): a store or a backup of another format is refused, naming both formats, and left
// as it was
// Promise (Testers, bad input): backups cut off or changed at any byte; foreign and newer backups
func TestBadBackups(t *testing.T) {
	t.Parallel()
	must.SkipInShort(t)
	t.Run("bad_input_a_backup_cut_at_every_byte", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		whole, before := readFile(t, file), contentOf(t, dir)
		cut := filepath.Join(t.TempDir(), "cut")
		want := complaint{term.ExitBadData, "it is cut off: ", "copy it again from where it was made, or use another one"}
		for n := range whole {
			must.Do(t, os.WriteFile(cut, whole[:n], 0o600))
			for _, args := range [][]string{{"backup", "verify", cut}, {"restore", cut, "--yes", "--data", dir}} {
				stderr, code := runHere(nil, args...)
				want.judge(t, fmt.Sprintf("%v of %d of %d bytes", args[:len(args)-1], n, len(whole)), stderr, code)
				if t.Failed() {
					return
				}
			}
			if n%100 == 0 { // a stream is read into a new generation, which takes longer
				stderr, code := runHere(whole[:n], "restore", "-", "--yes", "--data", dir)
				want.judge(t, fmt.Sprintf("restore - of %d of %d bytes", n, len(whole)), stderr, code)
			}
		}
		sameContent(t, "restoring what was cut", dir, before)
		stillThere(t, dir)
	})
	t.Run("bad_input_a_backup_with_any_byte_changed", func(t *testing.T) {
		t.Parallel()
		dir, file := liveDirectory(t)
		whole, before := readFile(t, file), contentOf(t, dir)
		bent := filepath.Join(t.TempDir(), "bent")
		for n := range whole {
			changed := bytes.Clone(whole)
			changed[n] ^= 1 << (n % 8)
			must.Do(t, os.WriteFile(bent, changed, 0o600))
			stderr, code := runHere(nil, "restore", bent, "--yes", "--data", dir)
			complaint{term.ExitBadData, bent + ": it is ", ""}.judge(t, fmt.Sprintf("restore with byte %d changed", n), stderr, code)
			if t.Failed() {
				return
			}
		}
		sameContent(t, "restoring what was changed", dir, before)
		stillThere(t, dir)
	})
	t.Run("bad_input_foreign_and_newer_backups", refuseForeignBackups)
	t.Run("hostile_backups", refuseHostileBackups)
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	return content
}

func refuseForeignBackups(t *testing.T) {
	t.Parallel()
	dir, file := liveDirectory(t)
	before := contentOf(t, dir)
	cases := map[string]struct {
		content []byte
		want    complaint
	}{
		"empty":        {nil, complaint{term.ExitBadData, "it is cut off: it is empty", "copy it again"}},
		"zip":          {[]byte("PK\x03\x04 and more"), complaint{term.ExitBadData, "it is not a backup of tollhouse", "name a backup file of tollhouse"}},
		"events":       {[]byte(`{"id":"evt_1"}` + "\n"), complaint{term.ExitBadData, "it is not a backup of tollhouse", "name a backup file of tollhouse"}},
		"zeros":        {make([]byte, 1<<20), complaint{term.ExitBadData, "it is not a backup of tollhouse", "name a backup file of tollhouse"}},
		"newer_format": {reframed(t, file, `"format":1`, `"format":7`), complaint{term.ExitBadData, "it has format 7, and this tollhouse knows up to 1", "use the tollhouse that wrote it, or a later one"}},
		"two_in_one":   {append(readFile(t, file), readFile(t, file)...), complaint{term.ExitBadData, "it is damaged: ", "copy it again"}},
	}
	for _, format := range []uint64{0, 2, 3, 9} {
		cases[fmt.Sprintf("format_%d", format)] = struct {
			content []byte
			want    complaint
		}{forged(t, backup.Header{Schema: format, Instance: "00"}, nil), complaint{term.ExitBadData, fmt.Sprintf("the store has the unknown format %d; this tollhouse reads format 1", format), "use the tollhouse that wrote it"}}
	}
	for name, c := range cases {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, c.content, 0o600))
		for _, args := range [][]string{{"backup", "verify", path}, {"restore", path, "--yes", "--data", dir}} {
			_, stderr, code := run(t, args...)
			c.want.judge(t, name+": "+args[0], stderr, code)
		}
	}
	for name, path := range map[string]string{"a_directory": dir, "nothing": filepath.Join(dir, "none")} {
		if _, stderr, code := run(t, "restore", path, "--yes", "--data", dir); code != term.ExitNotFound && code != term.ExitIO && code != term.ExitUsage || !strings.Contains(stderr, path) {
			t.Errorf("restore of %s: exit %d, %s", name, code, stderr)
		}
	}
	sameContent(t, "what was refused", dir, before)
	stillThere(t, dir)
}

// frameNote frames a header or trailer as a backup has it.
func frameNote(text []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{}, uint32(len(text)))
	return append(binary.BigEndian.AppendUint32(b, crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli))), text...)
}

// reframed is a backup whose header says something else, under a right checksum.
func reframed(t *testing.T, file, old, new string) []byte {
	t.Helper()
	whole := readFile(t, file)
	const magicSize = 8
	size := int(binary.BigEndian.Uint32(whole[magicSize:]))
	head, rest := whole[magicSize+8:magicSize+8+size], whole[magicSize+8+size:]
	changed := bytes.Replace(head, []byte(old), []byte(new), 1)
	if bytes.Equal(changed, head) {
		t.Fatalf("the header %s has no %s", head, old)
	}
	return append(append(bytes.Clone(whole[:magicSize]), frameNote(changed)...), rest...)
}

// forged is a backup with a right digest and whatever records.
func forged(t *testing.T, h backup.Header, records []kv.Record) []byte {
	t.Helper()
	var chunk []byte
	totals := backup.Totals{Records: int64(len(records)), Kinds: map[string]int64{}}
	for _, r := range records {
		begin := len(chunk)
		chunk = append(binary.AppendUvarint(chunk, uint64(len(r.Key))), r.Key...)
		chunk = append(binary.AppendUvarint(chunk, uint64(len(r.Value))), r.Value...)
		chunk = binary.AppendUvarint(chunk, uint64(r.ExpiresAt))
		chunk = binary.BigEndian.AppendUint32(chunk, crc32.Checksum(chunk[begin:], crc32.MakeTable(crc32.Castagnoli)))
		totals.Bytes += int64(len(r.Key) + len(r.Value))
		totals.Kinds[string(r.Key[:1])]++
	}
	return forgedOf(t, h, totals, chunk, uint32(len(chunk)))
}

// forgedOf is a backup with a chunk that says that it unpacks to so many bytes.
func forgedOf(t *testing.T, h backup.Header, totals backup.Totals, chunk []byte, unpacked uint32) []byte {
	t.Helper()
	h.Format = max(h.Format, backup.Format)
	head := must.Get(json.Marshal(h))(t)
	tail := must.Get(json.Marshal(totals))(t)
	file := append([]byte("tollbak\n"), frameNote(head)...)
	if len(chunk) > 0 {
		packer := must.Get(zstd.NewWriter(nil))(t)
		packed := packer.EncodeAll(chunk, nil)
		for _, n := range []uint32{uint32(len(packed)), unpacked, crc32.Checksum(packed, crc32.MakeTable(crc32.Castagnoli))} {
			file = binary.BigEndian.AppendUint32(file, n)
		}
		file = append(file, packed...)
	}
	file = append(binary.BigEndian.AppendUint32(file, 0), frameNote(tail)...)
	digest := sha256.Sum256(file)
	return append(file, digest[:]...)
}

// hostileBackup is a file that is whole by every checksum, or nearly, and made to
// harm.
type hostileBackup struct {
	name    string
	content []byte
	says    string
}

func hostileBackups(t *testing.T, file string) []hostileBackup {
	t.Helper()
	h := backup.Header{Schema: formatNow, Instance: strings.Repeat("2", 32), Created: time.Unix(1_773_070_200, 0).UTC()}
	other := h
	other.Instance = strings.Repeat("1", 32)
	huge := binary.AppendUvarint(nil, 1<<63)
	self := func(schema byte) kv.Record {
		return kv.Record{Key: []byte("mstore\x00"), Value: append([]byte{2, schema}, bytes.Repeat([]byte{0x22}, 16)...)}
	}
	whole := readFile(t, file)
	return []hostileBackup{
		{"a_key_of_2_to_the_63_bytes", forgedOf(t, h, backup.Totals{}, append(huge, 'x'), 11), "it has an impossible length"},
		{"a_value_of_2_to_the_63_bytes", forgedOf(t, h, backup.Totals{}, append(append([]byte{1, 'a'}, huge...), 'x'), 13), "it has an impossible length"},
		{"an_expiry_past_all_numbers", forged(t, h, []kv.Record{{Key: []byte("a"), ExpiresAt: -1}}), "it has an impossible length"},
		{"a_chunk_that_unpacks_to_256_mib", forgedOf(t, h, backup.Totals{}, make([]byte, 256<<20), 1<<20), "a chunk cannot be decompressed"},
		{"a_chunk_that_says_it_has_4_gib", forgedOf(t, h, backup.Totals{}, make([]byte, 100), 1<<32-1), "a chunk has an impossible length"},
		{"a_header_of_4_gib", append([]byte("tollbak\n"), 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0), "has an impossible length"},
		{"keys_of_the_engine", forged(t, h, []kv.Record{{Key: []byte("!badger!head"), Value: []byte("1")}, self(formatNow)}), "no store can hold its key"},
		{"keys_in_disorder", forged(t, h, []kv.Record{self(formatNow), {Key: []byte("a")}}), "its key does not follow the one before it"},
		{"records_of_no_kind", forged(t, h, []kv.Record{{Key: []byte("Zzz"), Value: []byte("1")}}), "unknown kind of record 'Z'"},
		{"a_store_without_itself", forged(t, h, nil), "the store's own record is missing"},
		{"another_store_than_its_header_says", forged(t, other, []kv.Record{self(formatNow)}), "the header has format 1 and instance 1111"},
		{"a_store_of_another_format_than_its_header_says", forged(t, h, []kv.Record{self(formatNow + 1)}), "the records have format 2"},
		{"cut_at_the_end_of_a_frame", whole[:len(whole)-sha256.Size], "it is cut off: "},
	}
}

func refuseHostileBackups(t *testing.T) {
	t.Parallel()
	dir, file := liveDirectory(t)
	before := contentOf(t, dir)
	for _, h := range hostileBackups(t, file) {
		path := filepath.Join(t.TempDir(), h.name)
		must.Do(t, os.WriteFile(path, h.content, 0o600))
		fresh := filepath.Join(t.TempDir(), "fresh")
		want := complaint{term.ExitBadData, h.says, "copy it again from where it was made, or use another one"}
		for _, args := range [][]string{{"backup", "verify", path}, {"restore", path, "--yes", "--data", dir}, {"restore", path, "--data", fresh}} {
			_, stderr, code := run(t, args...)
			want.judge(t, h.name, stderr, code)
		}
		// As a stream it is read into a new generation, which goes again.
		stderr, code := runHere(h.content, "restore", "-", "--yes", "--data", dir)
		want.judge(t, h.name+" as a stream", stderr, code)
		if _, err := os.Lstat(fresh); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the refused restore has left %s", h.name, fresh)
		}
	}
	sameContent(t, "what was refused", dir, before)
	stillThere(t, dir)
}

// Promise (Testers, bad input): unreadable or misspelt configuration; another program's data
// directory; a clock 10 years off
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	t.Run("bad_input_files_that_are_named_and_cannot_be", refuseFiles)
	t.Run("bad_input_settings_misspelt_and_oversized", refuseSettings)
	t.Run("bad_input_a_busy_port", refuseBusyPort)
	t.Run("bad_input_a_clock_10_years_off", refuseClock)
	t.Run("bad_input_the_directory_of_another_program", refuseForeignDirectory)
}

func refuseFiles(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir, _ := liveDirectory(t)
	root := t.TempDir()
	made := func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(root, name)
		must.Do(t, os.WriteFile(path, content, 0o600))
		return path
	}
	huge := made("huge", bytes.Repeat([]byte("0123456789abcdef"), 1<<20))
	for name, c := range map[string]struct {
		args []string
		want complaint
	}{
		"key_file_missing":       {[]string{"serve", "--listen", "127.0.0.1:0", "--key-file", filepath.Join(root, "none")}, complaint{term.ExitBusy, " does not exist", "openssl rand -hex 32"}},
		"key_file_a_directory":   {[]string{"serve", "--listen", "127.0.0.1:0", "--key-file", root}, complaint{term.ExitIO, root + ": is a directory", "check the path"}},
		"key_file_oversized":     {[]string{"serve", "--listen", "127.0.0.1:0", "--key-file", huge}, complaint{term.ExitConfig, "a server key is 64 hexadecimal characters", "name the file of the server key"}},
		"key_file_misspelt":      {[]string{"serve", "--listen", "127.0.0.1:0", "--key-file", made("bent", []byte(strings.Repeat("0g", 32)))}, complaint{term.ExitConfig, "a server key is 64 hexadecimal characters", "name the file of the server key"}},
		"key_file_empty":         {[]string{"serve", "--listen", "127.0.0.1:0", "--key-file", made("empty", nil)}, complaint{term.ExitConfig, "a server key is 64 hexadecimal characters", "name the file of the server key"}},
		"password_missing":       {[]string{"user", "create", "odile", "--password-file", filepath.Join(root, "none")}, complaint{term.ExitUsage, "no such file or directory", "name a file that holds the password"}},
		"password_a_directory":   {[]string{"user", "create", "odile", "--password-file", root}, complaint{term.ExitUsage, "is a directory", "name a file that holds the password"}},
		"password_oversized":     {[]string{"user", "create", "odile", "--password-file", huge}, complaint{term.ExitUsage, "a password has 12 to 1024 bytes", "none over the limit"}},
		"password_not_utf8":      {[]string{"user", "create", "odile", "--password-file", made("latin", []byte("caf\xe9 au lait"))}, complaint{term.ExitBadData, "the password is not UTF-8 text", "save it as UTF-8"}},
		"password_of_two_lines":  {[]string{"user", "create", "odile", "--password-file", made("lines", []byte("one\ntwo\n"))}, complaint{term.ExitBadData, "the password has more than one line", "write it on one line"}},
		"seed_file_missing":      {[]string{"dev", "--seed-file", filepath.Join(root, "none")}, complaint{term.ExitUsage, "none: no such file or directory", "give a file of JSON lines"}},
		"seed_file_misspelt":     {[]string{"dev", "--seed-file", made("seed", []byte(`{"cleint":{}}`+"\n"))}, complaint{term.ExitBadData, "cleint", "client"}},
		"seed_file_oversized":    {[]string{"dev", "--seed-file", huge}, complaint{term.ExitBadData, "the line has more than ", "write one object per line"}},
		"events_file_misspelt":   {[]string{"event", "import", made("events", []byte(`{"tpye":"a.b"}`+"\n")), "--account", "acct_a"}, complaint{term.ExitBadData, "tpye", "type"}},
		"data_directory_no_name": {[]string{"serve", "--listen", "127.0.0.1:0", "--data", ""}, complaint{term.ExitUsage, "--data is empty", "give a directory, or leave --data out"}},
	} {
		args := c.args
		if args[0] != "dev" && !strings.HasPrefix(name, "data_directory") {
			args = append(args, "--data", dir)
		}
		before := contentOf(t, dir)
		_, stderr, code := run(t, args...)
		c.want.judge(t, name, stderr, code)
		if name != "password_oversized" && name != "events_file_misspelt" { // which the store judges
			sameContent(t, name, dir, before)
		}
		if len(stderr) > 4<<10 {
			t.Errorf("%s: %d bytes of error", name, len(stderr))
		}
	}
	stillThere(t, dir)
	if out, stderr, code := run(t, "user", "list", "--data", dir, "--json"); code != term.ExitOK || out != "" {
		t.Errorf("user list afterwards: exit %d, %s, %s; want nobody", code, out, stderr)
	}
}

// runWith runs a command to its end, in an environment with more in it.
func runWith(t *testing.T, environ []string, args ...string) (stderr string, code int) {
	t.Helper()
	var errs strings.Builder
	cmd := exec.Command("tollhouse", args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), environ...), &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return errs.String(), cmd.ProcessState.ExitCode()
}

func refuseSettings(t *testing.T) {
	must.SkipInShort(t)
	t.Parallel()
	dir, _ := liveDirectory(t)
	before := contentOf(t, dir)
	long := strings.Repeat("x", 100<<10)
	for name, c := range map[string]struct {
		environ []string
		args    []string
		want    complaint
	}{
		"flag_misspelt":      {nil, []string{"serve", "--pubic-url", "https://pay.example"}, complaint{term.ExitUsage, "has no flag --pubic-url", "did you mean --public-url?"}},
		"lower_bound":        {nil, []string{"event", "list", "--from", "2h"}, complaint{term.ExitUsage, "has no flag --from", "did you mean --since?"}},
		"upper_bound":        {nil, []string{"event", "list", "--to", "2h"}, complaint{term.ExitUsage, "has no flag --to", "did you mean --until?"}},
		"bound_of_a_webhook": {nil, []string{"webhook", "retry", "wep_1", "--since", "2h"}, complaint{term.ExitUsage, "has no flag --since", "did you mean --from?"}},
		"url_not_utf8":       {nil, []string{"webhook", "create", "--url", "https://hooks.example/caf\xe9"}, complaint{term.ExitUsage, "--url is not valid UTF-8", "percent-encode it"}},
		"new_url_not_utf8":   {nil, []string{"webhook", "update", "wep_1", "--url", "https://hooks.example/caf\xe9"}, complaint{term.ExitUsage, "--url is not valid UTF-8", "percent-encode it"}},
		"devs_url_not_utf8":  {nil, []string{"dev", "--listen", "127.0.0.1:0", "--webhook-to", "https://hooks.example/caf\xe9"}, complaint{term.ExitUsage, "the URL is not valid UTF-8", "percent-encode it"}},
		"bound_not_included": {nil, []string{"event", "tail", "--before", "2h"}, complaint{term.ExitUsage, "has no flag --before", "--help lists the flags"}},
		"command_misspelt":   {nil, []string{"sevre"}, complaint{term.ExitUsage, `unknown command "tollhouse sevre"`, "did you mean tollhouse serve?"}},
		"value_misspelt":     {nil, []string{"serve", "--access-ttl", "1hour"}, complaint{term.ExitUsage, `--access-ttl "1hour": give a duration`, "--help lists the flags"}},
		"variable_misspelt":  {[]string{"TOLLHOUSE_ACCESS_TTL=1hour"}, []string{"serve"}, complaint{term.ExitConfig, `TOLLHOUSE_ACCESS_TTL="1hour": give a duration`, "correct the variable"}},
		"variable_oversized": {[]string{"TOLLHOUSE_PUBLIC_URL=" + long}, []string{"serve", "--listen", "127.0.0.1:0"}, complaint{term.ExitUsage, "is not a complete URL", ""}},
		"flag_oversized":     {nil, []string{"serve", "--listen", long}, complaint{term.ExitUsage, "is not a valid listen address", ""}},
		"number_oversized":   {nil, []string{"event", "list", "--limit", strings.Repeat("9", 500)}, complaint{term.ExitUsage, "give a smaller number", "--help lists the flags"}},
		"directory_too_long": {nil, []string{"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, strings.Repeat("d", 300))}, complaint{term.ExitConfig, "file name too long", "check the path"}},
	} {
		args := c.args
		if name != "directory_too_long" {
			args = append(args, "--data", dir)
		}
		stderr, code := runWith(t, c.environ, args...)
		c.want.judge(t, name, stderr, code)
	}
	// One that is not ours stops nothing, and is told with the nearest.
	s, err := startProcess("", []string{"TOLLHOUSE_PUBLIC_ULR=https://pay.example"}, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	must.Do(t, err)
	if s.end(); !strings.Contains(s.stderr.String(), "the variable TOLLHOUSE_PUBLIC_ULR is not a setting; did you mean TOLLHOUSE_PUBLIC_URL?") {
		t.Errorf("an unknown variable is not told: %s", s.stderr)
	}
	sameContent(t, "what was refused", dir, before)
	stillThere(t, dir)
}

func refuseBusyPort(t *testing.T) {
	t.Parallel()
	dir, _ := liveDirectory(t)
	before := contentOf(t, dir)
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	addr := taken.Addr().String()
	fresh := filepath.Join(t.TempDir(), "fresh")
	for _, args := range [][]string{
		{"serve", "--listen", addr, "--data", dir}, {"serve", "--listen", addr, "--data", fresh}, {"dev", "--listen", addr},
		{"serve", "--listen", "127.0.0.1:0", "--listen", addr, "--data", dir}, {"serve", "--listen", "127.0.0.1:0", "--metrics-listen", addr, "--data", dir},
	} {
		_, stderr, code := run(t, args...)
		complaint{term.ExitBusy, "the address " + addr + " is in use by another process", "listen 127.0.0.1:"}.judge(t, strings.Join(args, " "), stderr, code)
	}
	if _, err := os.Lstat(fresh); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a port that is taken has left %s", fresh)
	}
	sameContent(t, "a start on a busy port", dir, before)
	stillThere(t, dir)
}

// stampAt writes the engine's note of its last write as if that had been at
// another time: to the next start it is the clock that is off.
func stampAt(t *testing.T, dir string, at time.Time) {
	t.Helper()
	path := filepath.Join(dir, datadir.GenerationOne, "STAMP")
	stamp := readFile(t, path)
	body := stamp[:len(stamp)-crc32.Size]
	binary.BigEndian.PutUint64(body[len(body)-8:], uint64(at.UnixNano()))
	stamp = binary.BigEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
	must.Do(t, os.WriteFile(path, stamp, 0o600))
}

func refuseClock(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]int{"ahead_of": -10, "behind": 10} {
		dir, _ := liveDirectory(t)
		last := time.Now().AddDate(off, 0, 0).UTC()
		stampAt(t, dir, last)
		before := contentOf(t, dir)
		want := complaint{term.ExitBusy, " " + strings.ReplaceAll(name, "_", " ") + " the last write at " + last.Format("2006-01-02T15:"), "set the clock right and start again; if it is right, start once with --accept-clock"}
		for _, args := range [][]string{{"serve", "--listen", "127.0.0.1:0"}, {"account", "list"}, {"backup", filepath.Join(t.TempDir(), "file")}} {
			_, stderr, code := run(t, append(args, "--data", dir)...)
			want.judge(t, "10 years "+name+": "+args[0], stderr, code)
		}
		sameContent(t, "a start under a wrong clock", dir, before)
		s := start(t, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--accept-clock")
		s.end()
		stillThere(t, dir)
	}
}

func refuseForeignDirectory(t *testing.T) {
	t.Parallel()
	_, file := liveDirectory(t)
	for name, files := range map[string][]string{
		"postgres": {"PG_VERSION", "postgresql.conf", "base/1/112"}, "git": {".git/HEAD", "README.md"}, "sqlite": {"data.db", "data.db-wal"},
		"badger": {"MANIFEST", "KEYREGISTRY", "000001.vlog"}, "a_home": {".profile", "LOCK", "notes.txt"},
	} {
		dir := must.ClosedDir(t, name)
		for _, f := range files {
			path := filepath.Join(dir, f)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("theirs\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		before, lock := contentOf(t, dir), filepath.Join(dir, datadir.LockName)
		for _, args := range [][]string{{"account", "list"}, {"backup", filepath.Join(t.TempDir(), "file")}, {"account", "create", "acct_a"}, {"restore", file, "--yes"}, {"serve", "--listen", "127.0.0.1:0"}} {
			_, stderr, code := run(t, append(args, "--data", dir)...)
			complaint{term.ExitConfig, dir + " is not a data directory: it contains ", "name an empty directory, or one that tollhouse created, with --data"}.judge(t, name+": "+args[0], stderr, code)
			if t.Failed() {
				return
			}
		}
		sameContent(t, "what was refused in the directory of "+name, dir, before)
		if content, err := os.ReadFile(lock); err == nil && string(content) != "theirs\n" {
			t.Errorf("%s: their LOCK holds %q", name, content)
		}
	}
}
