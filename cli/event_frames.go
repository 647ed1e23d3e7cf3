package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// frameSizeMax bounds a line of a stream and the data of a frame, in bytes: twice
// the largest event.
const frameSizeMax = 128 << 10

var errFrameTooLong = fmt.Errorf("more than %d bytes in one event", frameSizeMax)

// frame is one server-sent event.
type frame struct {
	name string // of a control frame; "" for an event
	id   string
	data []byte // valid until the next one is read; empty if the frame only moves the position
}

// frameReader parses server-sent events (HTML §9.2.6). It holds one frame.
type frameReader struct {
	lines *bufio.Scanner
	data  []byte
	retry time.Duration // as the server last said, or 0
}

func newFrameReader(r io.Reader) *frameReader {
	f := &frameReader{lines: bufio.NewScanner(r)}
	f.lines.Buffer(nil, frameSizeMax)
	return f
}

// next returns the next frame with data or an id. A frame at the end of a stream without its
// empty line was cut off and is ignored.
func (r *frameReader) next() (frame, error) {
	f := frame{}
	r.data = r.data[:0]
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if len(line) == 0 {
			if len(r.data) > 0 || f.id != "" {
				f.data = bytes.TrimSuffix(r.data, []byte("\n"))
				return f, nil
			}
			f = frame{} // a comment, or retry alone
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			f.name = string(value)
		case "id":
			f.id = string(value)
		case "data":
			r.data = append(append(r.data, value...), '\n')
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				r.retry = time.Duration(ms) * time.Millisecond
			}
		}
		if len(r.data) > frameSizeMax {
			return frame{}, errFrameTooLong
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return frame{}, errFrameTooLong
	case err != nil:
		return frame{}, err
	}
	return frame{}, io.ErrUnexpectedEOF
}
