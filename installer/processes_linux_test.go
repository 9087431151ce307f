package installer

import (
	"testing"
	"time"
)

func TestProcessesSeesItself(t *testing.T) {
	stat := []byte("42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 1 2 3")
	if n, ok := startTicks(stat); !ok || n != 12345 {
		t.Errorf("%d, %v", n, ok)
	}
	if boot, ok := bootTime(); !ok || time.Since(boot) < 0 {
		t.Errorf("boot at %s, %v", boot, ok)
	}
	Processes()
}
