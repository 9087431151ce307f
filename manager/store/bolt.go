package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Bolt is the embedded backend: one bbolt file, one process.
type Bolt struct {
	db *bbolt.DB

	mu       sync.Mutex
	watchers map[string]map[chan struct{}]struct{} // by tenant and topic
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
	// Updates that come at the same time share one commit; a lone one isn't held back for long.
	db.MaxBatchDelay, db.MaxBatchSize = 2*time.Millisecond, 512
	return &Bolt{db: db, watchers: map[string]map[chan struct{}]struct{}{}}, nil
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
	if err := ctx.Err(); err != nil {
		return err
	}
	var topics []string
	err := closed(b.db.Batch(func(tx *bbolt.Tx) error {
		root, err := tx.CreateBucketIfNotExists([]byte(tenant))
		if err != nil {
			return err
		}
		t := &boltTx{root: root, writes: true}
		err = fn(t)
		topics = t.topics
		return err
	}))
	if err != nil {
		return err
	}
	b.notify(tenant, topics)
	return nil
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
func (b *Bolt) Close() error { return b.db.Close() }

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
