package alarms

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// The states of a message.
const (
	Begun     = "begun"
	Ended     = "ended"
	Continues = "continues" // it lasts, or has become worse
	Happened  = "happened"  // once
	Tested    = "test"
)

// The severities.
const (
	Warning = "warning"
	Problem = "problem"
)

// Finding is something that is wrong now, or that has happened. Its words leave the machine.
type Finding struct {
	Alarm    string // the name, as doctor has it
	Subject  string // an id, or ""
	Severity string
	Title    string
	Text     string // a sentence
	Next     string // what to do, without a full stop
}

// Message is one message to one target. It has the members of the generic form.
type Message struct {
	ID       string  `json:"id"`
	Alarm    string  `json:"alarm"`
	State    string  `json:"state"`
	Severity string  `json:"severity"`
	Subject  *string `json:"subject"`
	Count    int     `json:"count"`
	Title    string  `json:"title"`
	Text     string  `json:"text"`
	Next     string  `json:"next"`
	BegunAt  int64   `json:"begun_at"`
	EndedAt  *int64  `json:"ended_at"`
	SentAt   int64   `json:"sent_at"`
	Instance string  `json:"instance"`
	URL      string  `json:"url"`
}

// json returns the generic form.
func (m Message) json() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		panic("alarms: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// heading is the title with the instance, on one line.
func (m Message) heading() string {
	title := m.Title
	if m.State == Ended {
		title = "Ended: " + title
	}
	return oneLine("[" + m.Instance + "] " + title)
}

func oneLine(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "�"))
}

// body is the text with the next step.
func (m Message) body() string { return m.Text + "\nNext: " + m.Next }

// entry is a message in a queue.
type entry struct {
	Finding
	ID       string
	State    string
	Count    int   // of what it stands for
	BegunAt  int64 // Unix times
	EndedAt  int64 // 0 unless it has ended
	QueuedAt int64
	Tried    bool // so that its content no longer changes

	since time.Time // of the monotonic clock, when it was queued
}

// message is what is sent.
func (e *entry) message(now time.Time, instance, url string) Message {
	m := Message{ID: e.ID, Alarm: e.Alarm, State: e.State, Severity: e.Severity, Count: e.Count, Title: e.Title, Text: e.Text, Next: e.Next,
		BegunAt: e.BegunAt, SentAt: now.Unix(), Instance: instance, URL: url}
	if e.Subject != "" {
		subject := e.Subject
		m.Subject = &subject
		m.Text += " Id: " + subject + "."
	}
	if e.Count > 1 {
		m.Text += fmt.Sprintf(" Count: %d.", e.Count)
	}
	if e.State == Ended {
		ended := e.EndedAt
		m.EndedAt = &ended
		m.Text += fmt.Sprintf(" It lasted from %s to %s.", clock(e.BegunAt), clock(e.EndedAt))
		m.Next = "nothing, it has ended"
	}
	return m
}

func clock(unix int64) string { return time.Unix(unix, 0).UTC().Format("2006-01-02 15:04:05 UTC") }
