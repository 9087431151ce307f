package safefile

import "sync/atomic"

// Op names a step that can fail or be the last one before a kill.
type Op string

// The steps, in the order in which a replacement takes them.
const (
	OpOpen     Op = "open"
	OpCreate   Op = "create"
	OpChown    Op = "chown"
	OpChmod    Op = "chmod"
	OpWrite    Op = "write"
	OpSync     Op = "sync"
	OpRename   Op = "rename"
	OpSyncDir  Op = "sync directory"
	OpTruncate Op = "truncate"
	OpRemove   Op = "remove"
	OpMkdir    Op = "mkdir"
	OpLock     Op = "lock"
)

// Fault is asked before each step. An error takes the step's place; of a write, n bytes are written before it.
// path is the target, never the temporary name; data is what a write is about to write.
type Fault interface {
	Before(op Op, path string, data []byte) (n int, err error)
}

var fault atomic.Pointer[Fault]

// Inject installs a Fault for the whole process until undo is called. For tests only.
func Inject(f Fault) (undo func()) {
	old := fault.Swap(&f)
	return func() { fault.Store(old) }
}

func step(op Op, path string, data []byte) (int, error) {
	f := fault.Load()
	if f == nil {
		return len(data), nil
	}
	n, err := (*f).Before(op, path, data)
	if err != nil {
		return min(max(n, 0), len(data)), fail(string(op), path, err)
	}
	return len(data), nil
}
