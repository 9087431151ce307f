// Package storetest is the conformance suite of store.Store: each backend passes it, and what it demands is all that the
// Manager relies on.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/manager/store"
)

// Backend makes stores for the suite.
type Backend struct {
	// Open opens the store of a place; the same place again after Close or Crash holds what was committed.
	Open func(t *testing.T, place string) store.Store
	// Crash ends a store as a killed process would; nil if the backend can't be killed apart from the test.
	Crash func(t *testing.T, s store.Store)
}

var ctx = context.Background()

// Run runs the suite.
func Run(t *testing.T, b Backend) {
	t.Run("read your writes", func(t *testing.T) { readWrite(t, b) })
	t.Run("all or nothing", func(t *testing.T) { atomic(t, b) })
	t.Run("scan", func(t *testing.T) { scan(t, b) })
	t.Run("tenants apart", func(t *testing.T) { tenants(t, b) })
	t.Run("snapshot", func(t *testing.T) { snapshot(t, b) })
	t.Run("no update lost", func(t *testing.T) { serializable(t, b) })
	t.Run("a panic is its caller's", func(t *testing.T) { panics(t, b) })
	t.Run("one fails, others don't", func(t *testing.T) { mixed(t, b) })
	t.Run("watch", func(t *testing.T) { watch(t, b) })
	t.Run("reopen", func(t *testing.T) { reopen(t, b) })
	t.Run("closed", func(t *testing.T) { closed(t, b) })
	t.Run("typed tables", func(t *testing.T) { typed(t, b) })
}

func put(t *testing.T, s store.Store, kv ...string) {
	t.Helper()
	must(t, s.Update(ctx, "a", func(tx store.Tx) error {
		for i := 0; i < len(kv); i += 2 {
			if err := tx.Put("t", kv[i], []byte(kv[i+1])); err != nil {
				return err
			}
		}
		return nil
	}))
}

func get(t *testing.T, s store.Store, tenant, key string) (value string) {
	t.Helper()
	must(t, s.View(ctx, tenant, func(tx store.Tx) error {
		v, err := tx.Get("t", key)
		if errors.Is(err, store.ErrNotFound) {
			value = "-"
			return nil
		}
		value = string(v)
		return err
	}))
	return value
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func readWrite(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	equal(t, get(t, s, "a", "k"), "-")
	must(t, s.Update(ctx, "a", func(tx store.Tx) error {
		must(t, tx.Put("t", "k", []byte("1")))
		v, err := tx.Get("t", "k")
		must(t, err)
		equal(t, string(v), "1")
		must(t, tx.Delete("t", "never"))
		return tx.Delete("none", "never")
	}))
	equal(t, get(t, s, "a", "k"), "1")
	put(t, s, "k", "2")
	equal(t, get(t, s, "a", "k"), "2")
	must(t, s.Update(ctx, "a", func(tx store.Tx) error { return tx.Delete("t", "k") }))
	equal(t, get(t, s, "a", "k"), "-")
	if err := s.View(ctx, "a", func(tx store.Tx) error { return tx.Put("t", "k", nil) }); !errors.Is(err, store.ErrReadOnly) {
		t.Fatalf("write in View: %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Update(gone, "a", func(store.Tx) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

func atomic(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	put(t, s, "k", "1")
	boom := errors.New("boom")
	err := s.Update(ctx, "a", func(tx store.Tx) error {
		must(t, tx.Put("t", "k", []byte("2")))
		must(t, tx.Put("u", "k", []byte("2")))
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatalf("the function's error is lost: %v", err)
	}
	equal(t, get(t, s, "a", "k"), "1")
	must(t, s.View(ctx, "a", func(tx store.Tx) error {
		if _, err := tx.Get("u", "k"); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("a write of a failed transaction is there: %v", err)
		}
		return nil
	}))
}

func scan(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	put(t, s, "a", "", "b", "", "ba", "", "bb", "", "c", "", "d\x00", "")
	tests := []struct {
		name string
		r    store.Range
		want []string
	}{
		{"all", store.Range{}, []string{"a", "b", "ba", "bb", "c", "d\x00"}},
		{"after", store.Range{After: "ba"}, []string{"bb", "c", "d\x00"}},
		{"after what isn't there", store.Range{After: "bb0"}, []string{"c", "d\x00"}},
		{"before", store.Range{Before: "b"}, []string{"a"}},
		{"between", store.Range{After: "a", Before: "c"}, []string{"b", "ba", "bb"}},
		{"prefix", store.Prefix("b"), []string{"ba", "bb"}},
		{"nothing", store.Range{After: "x"}, nil},
		{"backwards", store.Range{Backwards: true}, []string{"d\x00", "c", "bb", "ba", "b", "a"}},
		{"backwards before", store.Range{Before: "c", Backwards: true}, []string{"bb", "ba", "b", "a"}},
		{"backwards between", store.Range{After: "b", Before: "x", Backwards: true}, []string{"d\x00", "c", "bb", "ba"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			must(t, s.View(ctx, "a", func(tx store.Tx) error {
				var got []string
				for k := range tx.Scan("t", tt.r) {
					got = append(got, k)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				n := 0
				for range tx.Scan("t", tt.r) {
					if n++; n == 1 {
						break // ending early is fine
					}
				}
				for range tx.Scan("none", tt.r) {
					t.Error("a table that isn't there has a record")
				}
				return nil
			}))
		})
	}
}

func tenants(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	put(t, s, "k", "1")
	equal(t, get(t, s, "b", "k"), "-")
	must(t, s.Update(ctx, "b", func(tx store.Tx) error { return tx.Put("t", "k", []byte("2")) }))
	equal(t, get(t, s, "a", "k"), "1")
	equal(t, get(t, s, "b", "k"), "2")
}

func snapshot(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	put(t, s, "k", "1")
	must(t, s.View(ctx, "a", func(tx store.Tx) error {
		done := make(chan error, 1)
		go func() {
			done <- s.Update(ctx, "a", func(tx store.Tx) error { return tx.Put("t", "k", []byte("2")) })
		}()
		must(t, <-done)
		v, err := tx.Get("t", "k")
		must(t, err)
		equal(t, string(v), "1")
		return nil
	}))
	equal(t, get(t, s, "a", "k"), "2")
}

func serializable(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	const writers, each = 16, 10
	counter := store.Table[int]("n")
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				err := s.Update(ctx, "a", func(tx store.Tx) error {
					n, err := counter.Get(tx, "n")
					if err != nil && !errors.Is(err, store.ErrNotFound) {
						return err
					}
					return counter.Put(tx, "n", n+1)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, s.View(ctx, "a", func(tx store.Tx) error {
		n, err := counter.Get(tx, "n")
		equal(t, n, writers*each)
		return err
	}))
}

func panics(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	func() {
		defer func() {
			if v := recover(); v != "boom" {
				t.Errorf("recovered %v", v)
			}
		}()
		_ = s.Update(ctx, "a", func(tx store.Tx) error {
			_ = tx.Put("t", "k", []byte("1"))
			panic("boom")
		})
	}()
	equal(t, get(t, s, "a", "k"), "-")
	put(t, s, "k", "2")
	equal(t, get(t, s, "a", "k"), "2")
}

func mixed(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	boom := errors.New("boom")
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			err := s.Update(ctx, "a", func(tx store.Tx) error {
				if err := tx.Put("t", fmt.Sprintf("k%02d", i), []byte("1")); err != nil || i%4 > 0 {
					return err
				}
				return boom
			})
			if want := i%4 == 0; errors.Is(err, boom) != want || !want && err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	for i := range 40 {
		want := "1"
		if i%4 == 0 {
			want = "-"
		}
		equal(t, get(t, s, "a", fmt.Sprintf("k%02d", i)), want)
	}
}

func watch(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	changed, stop := s.Watch("a", "x")
	other, stopOther := s.Watch("b", "x")
	defer stopOther()
	notify := func(fail error) {
		err := s.Update(ctx, "a", func(tx store.Tx) error {
			must(t, tx.Put("t", "k", []byte("1")))
			tx.Notify("x")
			return fail
		})
		if !errors.Is(err, fail) {
			t.Fatal(err)
		}
	}
	quiet := func(c <-chan struct{}, why string) {
		select {
		case <-c:
			t.Fatal(why)
		case <-time.After(20 * time.Millisecond):
		}
	}
	notify(errors.New("no"))
	quiet(changed, "notice of a failed transaction")
	notify(nil)
	notify(nil)
	select {
	case <-changed:
	case <-time.After(5 * time.Second):
		t.Fatal("no notice")
	}
	equal(t, get(t, s, "a", "k"), "1")
	quiet(other, "notice to another tenant")
	stop()
	notify(nil)
}

func reopen(t *testing.T, b Backend) {
	place := t.TempDir()
	s := b.Open(t, place)
	for i := range 50 {
		put(t, s, fmt.Sprintf("k%02d", i), "1")
	}
	if b.Crash != nil {
		must(t, s.View(ctx, "a", func(store.Tx) error { return nil }))
		b.Crash(t, s)
	} else {
		must(t, s.Close())
	}
	s = b.Open(t, place)
	defer s.Close()
	equal(t, get(t, s, "a", "k00"), "1")
	equal(t, get(t, s, "a", "k49"), "1")
	put(t, s, "k49", "2")
	equal(t, get(t, s, "a", "k49"), "2")
}

func closed(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	must(t, s.Close())
	if err := s.View(ctx, "a", func(store.Tx) error { return nil }); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("view: %v", err)
	}
	if err := s.Update(ctx, "a", func(store.Tx) error { return nil }); !errors.Is(err, store.ErrClosed) {
		t.Fatalf("update: %v", err)
	}
}

func typed(t *testing.T, b Backend) {
	s := b.Open(t, t.TempDir())
	defer s.Close()
	type record struct{ N int }
	table := store.Table[record]("r")
	must(t, s.Update(ctx, "a", func(tx store.Tx) error {
		must(t, table.Put(tx, "1", record{1}))
		must(t, table.Put(tx, "2", record{2}))
		return tx.Put("r", "3", []byte("{damaged"))
	}))
	must(t, s.View(ctx, "a", func(tx store.Tx) error {
		v, err := table.Get(tx, "2")
		must(t, err)
		equal(t, v.N, 2)
		if _, err := table.Get(tx, ""); !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("empty key: %v", err)
		}
		if _, err := table.Get(tx, "3"); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Fatalf("damaged: %v", err)
		}
		sum, faults := 0, 0
		for v, err := range table.Scan(tx, store.Range{}) {
			if err != nil {
				faults++
				continue
			}
			sum += v.N
		}
		equal(t, sum, 3)
		equal(t, faults, 1)
		return nil
	}))
}
