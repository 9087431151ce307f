package safefile

import (
	"os"
	"time"
)

// lockPoll is the pause between two tries: short against a hook's budget, long against the microseconds that a lock is held.
const lockPoll = time.Millisecond

// Lock takes an exclusive lock on a file made for the purpose (0600, never removed), waiting at most wait; 0 tries once.
// The lock ends with unlock or with the process, however that ends. ErrLocked: somebody else still holds it.
func Lock(path string, wait time.Duration) (unlock func(), err error) {
	f, err := Open(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(wait); ; time.Sleep(lockPoll) {
		if _, err = step(OpLock, path, nil); err != nil {
			break
		}
		var held bool
		if held, err = tryLock(f); err == nil {
			return func() { f.Close() }, nil
		}
		if !held {
			err = fail("lock", path, err)
			break
		}
		if !time.Now().Before(end) {
			err = fail("lock", path, ErrLocked)
			break
		}
	}
	f.Close()
	return nil, err
}
