// Package store keeps the Manager's records: ordered tables of a tenant, transactions, and a notice to whoever waits for a
// change. It knows nothing of what the records mean.
//
// Two kinds of replica set are meant to fit below the interface: one process with an embedded bbolt file, and several
// processes behind a load balancer with PostgreSQL (a transaction is serializable and may be run again; a notice is LISTEN
// and NOTIFY). Every backend passes package storetest.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

var (
	// ErrNotFound: no record has this key.
	ErrNotFound = errors.New("not found")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrReadOnly: a write in View.
	ErrReadOnly = errors.New("write in a transaction that reads")
)

// Store holds the tables of all tenants.
type Store interface {
	// View runs fn on a consistent snapshot. fn must not wait for an Update, which may have to wait for the end of View.
	View(ctx context.Context, tenant string, fn func(Tx) error) error
	// Update runs fn and commits if it returns nil: durable when Update returns, seen as a whole or not at all. fn may run
	// more than once and must have no effect but through tx.
	Update(ctx context.Context, tenant string, fn func(Tx) error) error
	// Watch returns a channel that gets a value after each commit that notified the topic (several may become one), from
	// any replica, until stop is called.
	Watch(tenant, topic string) (changed <-chan struct{}, stop func())
	// Close waits for running transactions.
	Close() error
}

// Tx is one transaction. Keys are non-empty strings, ordered by their bytes. Values are valid until the transaction ends.
type Tx interface {
	Get(table, key string) ([]byte, error) // ErrNotFound
	// Scan yields records in the order of their keys, from > after and < before (each "" is open), backwards if asked to.
	// A record may be put or deleted only after the scan.
	Scan(table string, r Range) iter.Seq2[string, []byte]
	Put(table, key string, value []byte) error
	Delete(table, key string) error // a key that isn't there is no error
	// Notify tells the watchers of a topic after the commit.
	Notify(topic string)
}

// Range bounds a scan.
type Range struct {
	After, Before string // exclusive; "" is open
	Backwards     bool
}

// Prefix is the range of all keys that begin with p, p itself excluded.
func Prefix(p string) Range { return Range{After: p, Before: p + "\xff"} }

// Table is a table of records of one type, kept as JSON.
type Table[T any] string

// Get returns a record; ErrNotFound names table and key.
func (t Table[T]) Get(tx Tx, key string) (T, error) {
	var v T
	if key == "" {
		return v, fmt.Errorf("%s: %w", string(t), ErrNotFound)
	}
	raw, err := tx.Get(string(t), key)
	if err != nil {
		return v, fmt.Errorf("%s %s: %w", string(t), key, err)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("record %s %s is damaged: %w", string(t), key, err)
	}
	return v, nil
}

// Put writes a record.
func (t Table[T]) Put(tx Tx, key string, v T) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", string(t), key, err)
	}
	if err := tx.Put(string(t), key, raw); err != nil {
		return fmt.Errorf("write %s %s: %w", string(t), key, err)
	}
	return nil
}

// Delete removes a record.
func (t Table[T]) Delete(tx Tx, key string) error { return tx.Delete(string(t), key) }

// Scan yields records; a damaged one ends the scan and is the error of the last pair.
func (t Table[T]) Scan(tx Tx, r Range) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for key, raw := range tx.Scan(string(t), r) {
			var v T
			if err := json.Unmarshal(raw, &v); err != nil {
				yield(v, fmt.Errorf("record %s %s is damaged: %w", string(t), key, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}
