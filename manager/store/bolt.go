package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Bolt is the embedded backend: one bbolt file, one process. One goroutine commits: what comes while a commit runs makes up
// the next one, so that a busy store waits for the disk no more often than it must.
type Bolt struct {
	db      *bbolt.DB
	updates chan *update
	ends    chan struct{}
	ended   chan struct{}
	once    sync.Once

	mu       sync.Mutex
	watchers map[string]map[chan struct{}]struct{} // by tenant and topic
}

// maxBatch bounds the updates of one commit.
const maxBatch = 256

// update is one call of Update on its way.
type update struct {
	tenant string
	fn     func(Tx) error
	topics []string
	panic  any
	done   chan error
}

// OpenBolt opens or makes the file (0600). It waits up to 2 s for another process to let go of it.
func OpenBolt(path string) (*Bolt, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 2 * time.Second, FreelistType: bbolt.FreelistMapType, InitialMmapSize: 16 << 20})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("open store %s: another process has it open: end that pinta-manager first", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	b := &Bolt{db: db, updates: make(chan *update, maxBatch), ends: make(chan struct{}), ended: make(chan struct{}), watchers: map[string]map[chan struct{}]struct{}{}}
	go b.commitLoop()
	return b, nil
}

// View implements Store.
func (b *Bolt) View(ctx context.Context, tenant string, fn func(Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return closed(b.db.View(func(tx *bbolt.Tx) error { return fn(&boltTx{root: tx.Bucket([]byte(tenant))}) }))
}

// Update implements Store.
func (b *Bolt) Update(ctx context.Context, tenant string, fn func(Tx) error) error {
	u := &update{tenant: tenant, fn: fn, done: make(chan error, 1)}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-b.ends:
		return ErrClosed
	default:
	}
	select {
	case b.updates <- u:
	case <-b.ends:
		return ErrClosed
	}
	var err error
	select {
	case err = <-u.done:
	case <-b.ended:
		select {
		case err = <-u.done: // it was done before the end
		default:
			return ErrClosed
		}
	}
	if u.panic != nil {
		panic(u.panic)
	}
	if err == nil {
		b.notify(tenant, u.topics)
	}
	return closed(err)
}

// commitLoop commits what is waiting, until Close.
func (b *Bolt) commitLoop() {
	defer close(b.ended)
	for {
		select {
		case u := <-b.updates:
			batch := []*update{u}
			for len(batch) < maxBatch && len(b.updates) > 0 {
				batch = append(batch, <-b.updates)
			}
			b.commit(batch)
		case <-b.ends:
			return
		}
	}
}

// commit runs a batch in one transaction. An update that fails spoils it for the others, so it is told its error and the
// rest is run again without it.
func (b *Bolt) commit(batch []*update) {
	for len(batch) > 0 {
		bad := -1
		err := b.db.Update(func(tx *bbolt.Tx) error {
			for i, u := range batch {
				if err := u.run(tx); err != nil {
					bad = i
					return err
				}
			}
			return nil
		})
		if bad < 0 {
			for _, u := range batch {
				u.done <- err
			}
			return
		}
		batch[bad].done <- err
		batch = slices.Delete(batch, bad, bad+1)
	}
}

var errPanic = errors.New("panic in an update")

func (u *update) run(tx *bbolt.Tx) (err error) {
	defer func() {
		if u.panic = recover(); u.panic != nil {
			err = errPanic // goes on where Update was called
		}
	}()
	root, err := tx.CreateBucketIfNotExists([]byte(u.tenant))
	if err != nil {
		return err
	}
	t := &boltTx{root: root, writes: true}
	err = u.fn(t)
	u.topics = t.topics
	return err
}

func closed(err error) error {
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// Watch implements Store.
func (b *Bolt) Watch(tenant, topic string) (<-chan struct{}, func()) {
	c, name := make(chan struct{}, 1), tenant+"\x00"+topic
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.watchers[name] == nil {
		b.watchers[name] = map[chan struct{}]struct{}{}
	}
	b.watchers[name][c] = struct{}{}
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.watchers[name], c)
	}
}

func (b *Bolt) notify(tenant string, topics []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, topic := range topics {
		for c := range b.watchers[tenant+"\x00"+topic] {
			select {
			case c <- struct{}{}:
			default: // it has a notice that it hasn't taken yet
			}
		}
	}
}

// Close implements Store.
func (b *Bolt) Close() error {
	b.once.Do(func() { close(b.ends) })
	<-b.ended
	return b.db.Close()
}

// boltTx keeps each table in a bucket below the tenant's.
type boltTx struct {
	root   *bbolt.Bucket // nil: the tenant has never written
	writes bool
	topics []string
}

func (t *boltTx) table(name string) *bbolt.Bucket {
	if t.root == nil {
		return nil
	}
	return t.root.Bucket([]byte(name))
}

func (t *boltTx) Get(table, key string) ([]byte, error) {
	if b := t.table(table); b != nil {
		if v := b.Get([]byte(key)); v != nil {
			return v, nil
		}
	}
	return nil, ErrNotFound
}

func (t *boltTx) Put(table, key string, value []byte) error {
	if !t.writes {
		return ErrReadOnly
	}
	b, err := t.root.CreateBucketIfNotExists([]byte(table))
	if err != nil {
		return err
	}
	return b.Put([]byte(key), value)
}

func (t *boltTx) Delete(table, key string) error {
	if !t.writes {
		return ErrReadOnly
	}
	if b := t.table(table); b != nil {
		return b.Delete([]byte(key))
	}
	return nil
}

func (t *boltTx) Notify(topic string) { t.topics = append(t.topics, topic) }

func (t *boltTx) Scan(table string, r Range) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		b := t.table(table)
		if b == nil {
			return
		}
		c := b.Cursor()
		after, before := []byte(r.After), []byte(r.Before)
		k, v := first(c, after)
		next := c.Next
		if r.Backwards {
			k, v = last(c, before)
			next = c.Prev
		}
		for ; k != nil; k, v = next() {
			if r.After != "" && bytes.Compare(k, after) <= 0 || r.Before != "" && bytes.Compare(k, before) >= 0 || !yield(string(k), v) {
				return
			}
		}
	}
}

func first(c *bbolt.Cursor, after []byte) (k, v []byte) {
	if len(after) == 0 {
		return c.First()
	}
	if k, v = c.Seek(after); bytes.Equal(k, after) {
		k, v = c.Next()
	}
	return k, v
}

func last(c *bbolt.Cursor, before []byte) (k, v []byte) {
	if len(before) == 0 {
		return c.Last()
	}
	if k, _ = c.Seek(before); k == nil {
		return c.Last()
	}
	return c.Prev()
}
