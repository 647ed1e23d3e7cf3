package moving_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"tollhouse/store/moving"
	"tollhouse/store/storetest/must"
)

// every has a line of each noun, as an export writes it.
var every = []string{
	`{"account":{"account":"acct_larkspur","name":"Larkspur","disabled":true,"created_at":1767225600}}`,
	`{"client":{"client_id":"books","client_secret":"a secret of the old system","name":"Books","redirect_uris":["https://books.example/cb?a=b&c=<d>"],"scopes":["events:read"]}}`,
	`{"client":{"client_id":"till","client_secret_hash":{"scheme":"sha256","hash":"00ff"},"public":true}}`,
	`{"user":{"username":"harriet","password_hash":"$2y$10$abc","account":"acct_larkspur","operator":true}}`,
	`{"resource":{"kind":"plan","id":"basic","object":{"price":9.50,"a":1e2},"event":"none"}}`,
	`{"event":{"id":"po_1","owner":"acct_larkspur","type":"plan.created","resource":"p","eventData":{"object":{"price":9.50}},"createdAt":1767225600}}`,
	`{"webhook":{"url":"https://hooks.example/","types":["customer.*"],"state":"disabled"}}`,
	`{"token":{"client_id":"books","username":"harriet","scope":"events:read","access_token_sha256":"00","expires_at":1767225600}}`,
}

// What is read is written again as it was.
//
// Promise (Platform §9): one record a line, of seven nouns, with the members that the commands print;
// null is absent, times are whole Unix seconds, and one of two members that say the same is enough
func TestALineIsReadAndWritten(t *testing.T) {
	t.Parallel()
	for _, line := range every {
		r, err := moving.Parse([]byte(line), false)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := string(must.Get(moving.Append(nil, r))(t)); got != line+"\n" {
			t.Errorf("%s\nbecame\n%s", line, got)
		}
		shown := fmt.Sprintf("%v %+v %#v %s", r, r, r, r)
		for _, canary := range []string{"old system", "$2y$10", "00ff"} {
			if strings.Contains(shown, canary) {
				t.Errorf("a record is printed with %s", canary)
			}
		}
	}
	for _, line := range []string{`{"user":{"username":"a","password":null,"account":null,"created_at":null}}`, ` {"user" : {"username":"a"}} `} {
		r := must.Get(moving.Parse([]byte(line), false))(t)
		if got := string(must.Get(moving.Append(nil, r))(t)); got != `{"user":{"username":"a"}}`+"\n" {
			t.Errorf("%s became %s", line, got)
		}
	}
}

// A line that is not in the form is an error of that line, which names what is wrong.
//
// Promise (Platform §9): a line with an unknown or repeated member, NUL, a byte order mark, both of a
// pair, or more than 64 KiB or 16 levels is refused by its own error, which names the member
func TestALineOutOfForm(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	tests := []struct{ line, wantCode, wantParam string }{
		{`{}`, moving.InvalidLine, ""},
		{`[]`, moving.InvalidLine, ""},
		{`null`, moving.InvalidLine, ""},
		{`{"user":{"username":"a"},"client":{}}`, moving.InvalidLine, ""},
		{`{"usr":{}}`, moving.InvalidLine, ""},
		{`{"user":[]}`, moving.InvalidLine, "user"},
		{`{"user":{"username":"a","username":"b"}}`, moving.InvalidLine, ""},
		{`{"user":{"username":"a"},"user":{"username":"b"}}`, moving.InvalidLine, ""},
		{"{\"user\":{\"username\":\"a\x00\"}}", moving.InvalidLine, ""},
		{`{"user":{"username":"a\u0000"}}`, moving.InvalidLine, "user.username"},
		{"\ufeff" + `{"user":{"username":"a"}}`, moving.InvalidLine, ""},
		{"{\"user\":{\"username\":\"a\xff\"}}", moving.InvalidLine, ""},
		{`{"user":{"username":"a"}} x`, moving.InvalidLine, ""},
		{`{"user":{"username":"` + strings.Repeat("a", moving.RecordSizeMax) + `"}}`, moving.InvalidLine, "user"},
		{`{"user":{"usernam":"a"}}`, moving.UnknownMember, "user.usernam"},
		{`{"user":{"Username":"a"}}`, moving.UnknownMember, "user.Username"},
		{`{"user":{"generation":7}}`, moving.UnknownMember, "user.generation"},
		{`{"client":{"revision":7}}`, moving.UnknownMember, "client.revision"},
		{`{"token":{"family_id":"fam_1"}}`, moving.UnknownMember, "token.family_id"},
		{`{"token":{"expires_in":3600}}`, moving.UnknownMember, "token.expires_in"},
		{`{"user":{"username":7}}`, moving.InvalidValue, "user.username"},
		{`{"user":{"username":"a","operator":"yes"}}`, moving.InvalidValue, "user.operator"},
		{`{"user":{"username":"a","created_at":1.5}}`, moving.InvalidValue, "user.created_at"},
		{`{"user":{"username":"a","created_at":1767225600000}}`, moving.InvalidValue, "user.created_at"},
		{`{"user":{"username":"a","created_at":-1}}`, moving.InvalidValue, "user.created_at"},
		{`{"user":{"username":"a","password":"x","password_hash":"y"}}`, moving.InvalidValue, "user.password"},
		{`{"client":{"client_secret":"x","client_secret_hash":"y"}}`, moving.InvalidValue, "client.client_secret"},
		{`{"token":{"access_token":"x","access_token_sha256":"y"}}`, moving.InvalidValue, "token.access_token"},
		{`{"token":{"refresh_token":"x","refresh_token_sha256":"y"}}`, moving.InvalidValue, "token.refresh_token"},
		{`{"resource":{"kind":"plan","id":"a"}}`, moving.InvalidValue, "resource.object"},
		{`{"resource":{"kind":"plan","id":"a","object":null}}`, moving.InvalidValue, "resource.object"},
		{`{"event":{"owner":"a","account":"b"}}`, moving.InvalidValue, "event.owner"},
		{`{"event":{"owner":""}}`, moving.InvalidValue, "event.owner"},
		{`{"event":{"eventData":{"object":` + deep(17) + `}}}`, moving.InvalidLine, ""},
	}
	for _, tt := range tests {
		r, err := moving.Parse([]byte(tt.line), false)
		var bad *moving.Error
		if !errors.As(err, &bad) || r != nil || bad.Code != tt.wantCode || bad.Param != tt.wantParam || bad.Reason == "" || bad.Hint == "" {
			t.Errorf("%.80s: %+v %v, want %s of %q", tt.line, bad, err, tt.wantCode, tt.wantParam)
		}
	}
	if _, err := moving.Parse([]byte(`{"event":{"eventData":{"object":`+deep(16)+`}}}`), false); err != nil {
		t.Errorf("a snapshot of 16 levels: %v", err)
	}
	if _, err := moving.Parse([]byte(`{"token":{"expires_in":-60}}`), true); err != nil {
		t.Errorf("a token of a seed: %v", err)
	}
}

// FuzzParse: a line is a record, whose own line is the same record, or an error with a code, a
// reason and the next step.
func FuzzParse(f *testing.F) {
	for _, line := range every {
		f.Add(line, false)
	}
	for _, line := range []string{`{"usr":{}}`, `{"user":[]}`, `[`, `{"token":{"expires_in":-60}}`, `{"event":{"account":"a"}}`, "\ufeff{}"} {
		f.Add(line, true)
	}
	f.Fuzz(func(t *testing.T, line string, isSeed bool) {
		r, err := moving.Parse([]byte(line), isSeed)
		if err != nil {
			var bad *moving.Error
			if !errors.As(err, &bad) || bad.Code == "" || bad.Reason == "" || bad.Hint == "" {
				t.Errorf("%q: %+v", line, err)
			}
			return
		}
		written := must.Get(moving.Append(nil, r))(t)
		again, err := moving.Parse(bytes.TrimSuffix(written, []byte("\n")), isSeed)
		if err != nil {
			t.Fatalf("%q became %q: %v", line, written, err)
		}
		if second := must.Get(moving.Append(nil, again))(t); !bytes.Equal(second, written) {
			t.Errorf("%q became %q and then %q", line, written, second)
		}
	})
}

// A file is read line by line, plain or packed, in the memory of one line.
//
// Promise (Platform §9): a line of 2 GB and a gzip bomb are errors of their lines; the memory of an
// import stays that of one line and one batch
func TestReaderHoldsOneLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*moving.LineSizeMax)
	text := "{\"a\":1}\r\n\n" + long + "\nlast"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	must.Get(io.WriteString(z, text))(t)
	must.Do(t, z.Close())
	for name, file := range map[string]string{"plain": text, "packed": packed.String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := must.Get(moving.Open(strings.NewReader(file)))(t)
			want := []struct {
				line   string
				offset int64
				err    error
			}{{`{"a":1}`, 0, nil}, {"", 9, nil}, {"", 10, moving.ErrLongLine}, {"last", int64(11 + len(long)), nil}, {"", int64(len(text)), io.EOF}}
			for _, w := range want {
				line, offset, err := r.Next()
				if string(line) != w.line || offset != w.offset || !errors.Is(err, w.err) {
					t.Errorf("Next() = %.20q %d %v, want %q %d %v", line, offset, err, w.line, w.offset, w.err)
				}
			}
		})
	}
	t.Run("bomb", func(t *testing.T) {
		t.Parallel()
		var bomb bytes.Buffer
		z := must.Get(gzip.NewWriterLevel(&bomb, gzip.BestSpeed))(t)
		zeros := make([]byte, 1<<20)
		for range 64 {
			must.Get(z.Write(zeros))(t)
		}
		must.Do(t, z.Close())
		r := must.Get(moving.Open(&bomb))(t)
		_, _, err := r.Next()
		if _, _, end := r.Next(); !errors.Is(err, moving.ErrLongLine) || !errors.Is(end, io.EOF) || r.Offset() != 64<<20 {
			t.Errorf("a bomb is %v, then %v at %d", err, end, r.Offset())
		}
	})
	t.Run("cut_off", func(t *testing.T) {
		t.Parallel()
		r := must.Get(moving.Open(bytes.NewReader(packed.Bytes()[:packed.Len()-9])))(t)
		var err error
		for err == nil || errors.Is(err, moving.ErrLongLine) {
			_, _, err = r.Next()
		}
		if !errors.Is(err, moving.ErrBrokenGzip) {
			t.Errorf("a file that is cut off ends with %v", err)
		}
	})
}

// A file in an old encoding is named as such, with the command that converts it.
func TestALineInAnotherEncoding(t *testing.T) {
	t.Parallel()
	_, err := moving.Parse([]byte("{\"user\":{\"username\":\"jos\xe9\"}}"), false)
	var bad *moving.Error
	if !errors.As(err, &bad) || bad.Code != moving.InvalidLine || !strings.Contains(bad.Reason, "UTF-8") || !strings.Contains(bad.Hint, "iconv") {
		t.Errorf("Parse() = %+v, want the encoding and iconv", bad)
	}
}
