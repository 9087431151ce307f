package trace

import "testing"

func BenchmarkNewTurn(b *testing.B) {
	dir := b.TempDir()
	for b.Loop() {
		ID(dir, "s", true, now)
	}
}

func BenchmarkSameTurn(b *testing.B) {
	dir := b.TempDir()
	ID(dir, "s", true, now)
	for b.Loop() {
		ID(dir, "s", false, now)
	}
}
