package enroll

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

const (
	stateFile = "agent.db"
	// freshFile is a database in the making; it gets its name when it is whole.
	freshFile   = stateFile + ".new"
	lockFile    = stateFile + ".lock"
	lockTimeout = 5 * time.Second
)

var bucket = []byte("state")

// ErrDamaged is a state file that can't be read any more. It is kept under
// another name when the next enrolment makes a new one.
var ErrDamaged = errors.New("the agent's state file is damaged: enrol again with a new token, the damaged file is kept beside it")

// store is a few JSON documents in one bbolt file that several processes share:
// it is opened for each transaction, so that `enroll` and `status` work beside
// the service. One update is one transaction: all of it is there after a kill,
// or nothing.
type store struct {
	dir string
	mu  sync.RWMutex // saves processes from waiting for their own file lock
	// step is a test's seam: called at each point where a kill makes a difference.
	step func(string)
}

func (s *store) at(point string) {
	if s.step != nil {
		s.step(point)
	}
}

// tx reads and writes documents by name.
type tx struct {
	b *bolt.Bucket
	// lost says that a damaged file was set aside for this transaction.
	lost bool
}

// errUnchanged ends an update that has nothing to write.
var errUnchanged = errors.New("unchanged")

// get decodes a document; one that is absent leaves v as it is.
func (t tx) get(name string, v any) error {
	if t.b == nil {
		return nil
	}
	raw := t.b.Get([]byte(name))
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		// Not ErrDamaged: a newer agent may have written it, and it is kept.
		return fmt.Errorf("state %q can't be read by this version of the agent: %w", name, err)
	}
	return nil
}

func (t tx) put(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("state %q: %w", name, err)
	}
	return t.b.Put([]byte(name), raw)
}

// view runs fn on the documents as they are; there need not be any.
func (s *store) view(fn func(tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.exists() {
		return fn(tx{})
	}
	return s.open(stateFile, true, func(db *bolt.DB) error {
		return db.View(func(t *bolt.Tx) error { return fn(tx{b: t.Bucket(bucket)}) })
	})
}

// update runs fn and commits what it put, or nothing if it fails.
func (s *store) update(fn func(tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at("begin")
	write := func(lost bool) error {
		return s.open(stateFile, false, func(db *bolt.DB) error {
			return db.Update(func(t *bolt.Tx) error {
				b, err := t.CreateBucketIfNotExists(bucket)
				if err != nil {
					return err
				}
				if err := fn(tx{b, lost}); err != nil {
					return err
				}
				s.at("commit")
				return nil
			})
		})
	}
	err := s.create(false)
	if err == nil {
		err = write(false)
	}
	if errors.Is(err, ErrDamaged) {
		if err = s.create(true); err == nil {
			err = write(true)
		}
	}
	if errors.Is(err, errUnchanged) {
		return nil
	}
	if err == nil {
		s.at("committed")
	}
	return err
}

// exists tells whether there is a state file; bbolt takes an empty one for new.
func (s *store) exists() bool {
	fi, err := os.Lstat(filepath.Join(s.dir, stateFile))
	return err == nil && fi.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// create makes the file if there is none, or in place of a damaged one. bbolt
// writes a new file bit by bit, so it grows under another name and is renamed
// when it is whole.
func (s *store) create(damaged bool) error {
	if s.exists() && !damaged {
		return nil
	}
	unlock, err := safefile.Lock(filepath.Join(s.dir, lockFile), lockTimeout)
	if err != nil {
		return fmt.Errorf("lock the state folder: %w", err)
	}
	defer unlock()
	dir, err := safefile.OpenDir(s.dir)
	if err != nil {
		return fmt.Errorf("open the state folder: %w", err)
	}
	defer dir.Close()
	if s.exists() && !damaged {
		return nil // another process was faster
	}
	if err := dir.Remove(freshFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove an unfinished state file: %w", err)
	}
	if err := s.open(freshFile, false, func(*bolt.DB) error { return nil }); err != nil {
		return err
	}
	s.at("created")
	if damaged {
		if err := dir.Rename(stateFile, stateFile+".damaged-"+strconv.FormatInt(time.Now().Unix(), 10)); err != nil {
			return fmt.Errorf("set the damaged state file aside: %w", err)
		}
		s.at("set aside")
	}
	if err := dir.Rename(freshFile, stateFile); err != nil {
		return fmt.Errorf("put the new state file in place: %w", err)
	}
	s.at("in place")
	return nil
}

// open runs fn on the file. What bbolt says of a file that is no database, or
// of one cut short (it faults or panics), becomes ErrDamaged.
func (s *store) open(name string, readOnly bool, fn func(*bolt.DB) error) (err error) {
	path := filepath.Join(s.dir, name)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error, string:
			err = fmt.Errorf("%s: %v: %w", path, p, ErrDamaged)
		default:
			panic(p)
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, ReadOnly: readOnly, OpenFile: safefile.Open})
	switch {
	case err == nil:
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("open %s: another process has held it for %s: end it or try again", path, lockTimeout)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch),
		strings.HasPrefix(err.Error(), "file size too small"):
		return fmt.Errorf("%s: %w: %w", path, err, ErrDamaged)
	default:
		return fmt.Errorf("open the agent's state: %w", err)
	}
	defer func() {
		if e := db.Close(); err == nil {
			err = e
		}
	}()
	return fn(db)
}
