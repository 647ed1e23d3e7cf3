package term

import (
	"context"
	"io"
	"time"
)

// SameSignal is how long after a signal another one is the same: timeout(1) sends its signal
// twice, and so does a terminal whose foreground program passes it on.
const SameSignal = 100 * time.Millisecond

// Sleep waits for d. It returns ctx.Err() when ctx is done first.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Interruptible reads from r until ctx is done, even while r blocks on a terminal.
func Interruptible(ctx context.Context, r io.Reader) io.Reader {
	reader, writer := io.Pipe()
	go func() {
		_, err := io.Copy(writer, r)
		_ = writer.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { _ = reader.CloseWithError(ctx.Err()) })
	return reader
}
