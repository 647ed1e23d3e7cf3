package alarms

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// step is one request of a service. The next one may depend on its answer.
type step struct {
	method, url, contentType string
	header                   http.Header
	body                     []byte
	// then reads the answer of a request that was accepted. It returns an error if the service
	// has refused it all the same.
	then func(answer []byte) error
}

func jsonStep(to string, body any) step {
	text, err := json.Marshal(body)
	if err != nil {
		panic("alarms: " + err.Error())
	}
	return step{method: http.MethodPost, url: to, contentType: "application/json", body: text, header: http.Header{}}
}

func genericSteps(t *Target, m Message) []step {
	s := step{method: http.MethodPost, url: t.base.String(), contentType: "application/json", body: m.json(), header: http.Header{}}
	for name, values := range t.values {
		s.header.Set(name, values[0])
	}
	t.basic(&s)
	return []step{s}
}

func (t *Target) basic(s *step) {
	if t.user != "" || t.password != "" {
		r := http.Request{Header: s.header}
		r.SetBasicAuth(t.user, t.password)
	}
}

// ntfyPriorities and tags are by state, else by severity.
var (
	ntfyPriorities = map[string]string{Ended: "2", Tested: "3", Warning: "4", Problem: "5"}
	ntfyTags       = map[string]string{Ended: "white_check_mark", Tested: "test_tube", Warning: "warning", Problem: "rotating_light"}
)

// weight is the state of a message if that decides how loud it is, else its severity.
func (m Message) weight() string {
	if m.State == Ended || m.State == Tested {
		return m.State
	}
	return m.Severity
}

func ntfySteps(t *Target, m Message) []step {
	s := step{method: http.MethodPost, url: t.base.String(), contentType: "text/plain; charset=utf-8", body: []byte(m.body()), header: http.Header{
		"Title":    {mime.QEncoding.Encode("utf-8", m.heading())},
		"Priority": {ntfyPriorities[m.weight()]},
		"Tags":     {ntfyTags[m.weight()]},
	}}
	t.basic(&s)
	return []step{s}
}

func gotifySteps(t *Target, m Message) []step {
	priority, _ := strconv.Atoi(map[string]string{Ended: "2", Tested: "4", Warning: "5", Problem: "8"}[m.weight()])
	s := jsonStep(t.base.JoinPath("message").String(), map[string]any{"title": m.heading(), "message": m.body(), "priority": priority})
	s.header.Set("X-Gotify-Key", t.password)
	return []step{s}
}

// slackText has no marks of Slack's own: they could name people.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func slackSteps(t *Target, m Message) []step {
	body := map[string]string{"text": slackText.Replace(m.heading() + "\n" + m.body())}
	if channel := t.values.Get("channel"); channel != "" {
		body["channel"] = channel
	}
	s := jsonStep(t.base.String(), body)
	if t.password != "" {
		s.header.Set("Authorization", "Bearer "+t.password)
		s.then = slackAnswer // always 200
	}
	return []step{s}
}

func slackAnswer(answer []byte) error {
	var said struct {
		OK bool `json:"ok"`
	}
	if json.Unmarshal(answer, &said) != nil || !said.OK {
		return errRefused
	}
	return nil
}

func discordSteps(t *Target, m Message) []step {
	to := *t.base
	if thread := t.values.Get("thread_id"); thread != "" {
		to.RawQuery = url.Values{"thread_id": {thread}}.Encode()
	}
	return []step{jsonStep(to.String(), map[string]any{"content": m.heading() + "\n" + m.body(), "allowed_mentions": map[string]any{"parse": []string{}}})}
}

func telegramSteps(t *Target, m Message) (steps []step) {
	for _, chat := range t.values["chats"] {
		steps = append(steps, jsonStep(t.base.String(), map[string]any{"chat_id": chat, "text": m.heading() + "\n" + m.body()}))
	}
	return steps
}

// matrix signs in if there is a user, and sends to each room. The message's id is the
// transaction's, so that a room shows a repetition once.
func (a *attempt) matrix(t *Target, m Message) error {
	token := t.password
	if t.user != "" {
		login := jsonStep(t.base.JoinPath("/_matrix/client/v3/login").String(), map[string]any{
			"type": "m.login.password", "identifier": map[string]string{"type": "m.id.user", "user": t.user}, "password": t.password,
		})
		var said struct {
			AccessToken string `json:"access_token"`
		}
		login.then = func(answer []byte) error { return jsonAnswer(answer, &said) }
		if err := a.do(login); err != nil {
			return err
		}
		token = said.AccessToken
		defer func() {
			out := jsonStep(t.base.JoinPath("/_matrix/client/v3/logout").String(), struct{}{})
			out.header.Set("Authorization", "Bearer "+token)
			status := a.status
			_ = a.do(out) // the message is sent
			a.status = status
		}()
	}
	for _, room := range t.values["rooms"] {
		if strings.HasPrefix(room, "#") {
			alias := step{method: http.MethodGet, url: t.base.String() + "/_matrix/client/v3/directory/room/" + url.PathEscape(room), header: http.Header{}}
			alias.header.Set("Authorization", "Bearer "+token)
			var said struct {
				RoomID string `json:"room_id"`
			}
			alias.then = func(answer []byte) error { return jsonAnswer(answer, &said) }
			if err := a.do(alias); err != nil {
				return err
			}
			room = said.RoomID
		}
		s := jsonStep(t.base.String()+"/_matrix/client/v3/rooms/"+url.PathEscape(room)+"/send/m.room.message/"+m.ID,
			map[string]string{"msgtype": "m.text", "body": m.heading() + "\n" + m.body()})
		s.method = http.MethodPut
		s.header.Set("Authorization", "Bearer "+token)
		if err := a.do(s); err != nil {
			return err
		}
	}
	return nil
}

func jsonAnswer(answer []byte, into any) error {
	if json.Unmarshal(answer, into) != nil {
		return errRefused
	}
	return nil
}
