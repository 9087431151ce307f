//go:build unix

package hook

import (
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/internal/local"
)

// stdin is file descriptor 0. It stays in blocking mode, because the mode
// belongs to the host's pipe as well: poll(2) says when a read won't wait.
type stdin struct{}

func (*stdin) Read(p []byte, wait time.Duration) (int, error) {
	if _, err := local.Poll(0, unix.POLLIN, time.Now().Add(wait)); err == local.ErrTimeout {
		return 0, event.ErrWait
	}
	for {
		n, err := unix.Read(0, p)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, event.ErrWait
		case err != nil || n <= 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// writeAll writes to a standard stream by the system call. os.File would raise
// SIGPIPE, and with it a status that denies the tool, when the reader of
// descriptor 1 or 2 is gone; the call returns EPIPE, which changes nothing.
func writeAll(fd int, line []byte) {
	for len(line) > 0 {
		n, err := unix.Write(fd, line)
		if n > 0 {
			line = line[n:]
		}
		switch err {
		case nil, unix.EINTR:
		case unix.EAGAIN: // the host made its pipe non-blocking
			if _, err := local.Poll(fd, unix.POLLOUT, time.Now().Add(watchdog)); err != nil {
				return
			}
		default:
			return
		}
	}
}
