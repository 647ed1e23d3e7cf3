package web

import (
	"net/http"
	"strconv"

	"tollhouse/store/snapshot"
)

// WriteProblem sends a problem as JSON.
func WriteProblem(w http.ResponseWriter, p *Problem) {
	for name, values := range p.Header {
		w.Header()[name] = values
	}
	body := map[string]any{}
	for name, value := range p.Extra {
		body[name] = value
	}
	body["error"], body["error_description"] = p.Code, p.Description
	if p.Param != "" {
		body["param"] = p.Param
	}
	WriteJSON(w, p.Status, body)
}

// WriteJSON sends value. Its type and nosniff keep a browser from reading it as HTML.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	WriteBody(w, status, "application/json", append(EncodeJSON(value), '\n'))
}

// EncodeJSON encodes an answer, with the escapes of an event.
func EncodeJSON(value any) []byte {
	body, err := snapshot.EncodeJSON(value)
	if err != nil {
		panic("web: answer cannot be encoded: " + err.Error())
	}
	return body
}

// WriteBody sends a whole body; without another Cache-Control it is not stored.
func WriteBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{contentType}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if len(h["Cache-Control"]) == 0 {
		h["Cache-Control"] = headerNoStore
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller may be gone
}

// OAuthHeaders are required by the specification and RFC 6749 §5.1, on errors too.
func OAuthHeaders(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store, private")
	w.Header().Set("Pragma", "no-cache")
}
