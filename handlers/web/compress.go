package web

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

const (
	GzipSizeMin = 1 << 10 // bytes; a smaller answer is sent in one packet anyway
	gzipLevel   = 1       // most of the gain for the least work
)

// WithGzip compresses responses of the API and static files on request. Pages and
// OAuth responses are not compressed: their length would reveal secrets.
func WithGzip(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(GzipSizeMin), gzhttp.CompressionLevel(gzipLevel), gzhttp.EnableGzip(true), gzhttp.EnableZstd(false),
		gzhttp.SuffixETag(gzipSuffix), gzhttp.ContentTypeFilter(isCompressible),
	)
	if err != nil {
		panic("web: gzip: " + err.Error())
	}
	compressed := wrap(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isOurs := strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/static/")
		switch {
		case !isOurs:
			next.ServeHTTP(w, r)
		case !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
			compressed.ServeHTTP(w, r) // it adds Vary
		default:
			whole := &wholeAnswer{ResponseWriter: w}
			compressed.ServeHTTP(whole, r)
			whole.send()
		}
	})
}

// wholeAnswer buffers a response, so that the compressor, which takes 800 KiB, does
// not wait for the reader.
type wholeAnswer struct {
	http.ResponseWriter
	status int
	body   []byte
	sent   bool // write through
}

func (w *wholeAnswer) WriteHeader(status int) {
	if w.sent || status < http.StatusOK {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.status = cmp.Or(w.status, status)
}

func (w *wholeAnswer) Write(b []byte) (int, error) {
	if w.sent {
		return w.ResponseWriter.Write(b)
	}
	w.body = append(w.body, b...)
	return len(b), nil
}

// Flush ends buffering: a stream sends each frame immediately.
func (w *wholeAnswer) Flush() { _ = w.FlushError() }

// FlushError is Flush with an error.
func (w *wholeAnswer) FlushError() error {
	w.send()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *wholeAnswer) send() {
	if w.sent {
		return
	}
	w.sent = true
	if w.status != 0 {
		w.ResponseWriter.WriteHeader(w.status)
	}
	if len(w.body) > 0 {
		_, _ = w.ResponseWriter.Write(w.body) // the caller may be gone
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (w *wholeAnswer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// isCompressible excludes event streams, which send each frame immediately.
func isCompressible(contentType string) bool {
	return !strings.HasPrefix(contentType, AsEventStream)
}
