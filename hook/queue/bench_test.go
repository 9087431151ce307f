package queue

import (
	"testing"
	"time"
)

func BenchmarkAppend(b *testing.B) {
	dir, body := b.TempDir(), payload("a", 2000)
	for n := 0; b.Loop(); n++ {
		if n%500 == 0 {
			write(b, dir)
		}
		Append(dir, body, now)
	}
}

// A full queue is rewritten, durably, for each span that comes in.
func BenchmarkAppendToFullQueue(b *testing.B) {
	dir, body := b.TempDir(), payload("a", 2000)
	for range maxEntries {
		Append(dir, body, now)
	}
	for b.Loop() {
		Append(dir, body, now)
	}
}

func BenchmarkFlushFullQueue(b *testing.B) {
	body := payload("a", 2000)
	for b.Loop() {
		b.StopTimer()
		dir := b.TempDir()
		for range maxEntries {
			Append(dir, body, now)
		}
		b.StartTimer()
		if s, err := Flush(dir, now, time.Now().Add(time.Minute), func([]byte) (Outcome, error) { return Delivered, nil }); err != nil || s.Delivered != maxEntries {
			b.Fatal(s, err)
		}
	}
}
