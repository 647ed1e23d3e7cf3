package handlers

import (
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

const (
	gzipSizeMin = 1 << 10 // bytes; a smaller answer is sent in one packet anyway
	gzipLevel   = 1       // most of the gain for the least work
)

// withGzip compresses answers of the API and files for callers that ask for it.
// Pages and everything of OAuth are sent as they are: their length tells about
// what is secret in them.
func withGzip(next http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.MinSize(gzipSizeMin), gzhttp.CompressionLevel(gzipLevel), gzhttp.EnableGzip(true), gzhttp.EnableZstd(false),
		gzhttp.SuffixETag(gzipSuffix), gzhttp.ContentTypeFilter(isCompressible),
	)
	if err != nil {
		panic("handlers: gzip: " + err.Error()) // the options above are constants
	}
	compressed := wrap(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/static/") {
			compressed.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isCompressible leaves out event streams, of which each frame is sent at once.
func isCompressible(contentType string) bool {
	return !strings.HasPrefix(contentType, asEventStream)
}

// asEventStream is the media type of live events.
const asEventStream = "text/event-stream"
