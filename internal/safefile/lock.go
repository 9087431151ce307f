package safefile

import (
	"os"
	"time"
)

// Lock takes an exclusive lock on a file made for the purpose (0600, never removed), waiting at most wait; 0 tries once.
// The lock ends with unlock or with the process, however that ends. ErrLocked: somebody else still holds it.
func Lock(path string, wait time.Duration) (unlock func(), err error) {
	f, err := Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = step(OpLock, path, nil); err == nil {
		var held bool
		if held, err = tryLock(f); held && wait > 0 {
			held, err = waitLock(f, wait)
		}
		if held {
			err = ErrLocked
		}
		if err != nil {
			err = fail("lock", path, err)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
