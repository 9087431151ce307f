package installer

import (
	"testing"
	"time"
)

func TestQuiet(t *testing.T) {
	q := quiet{}
	now := time.Unix(1_000_000, 0)
	s := Step{Object: HookFile, Path: "/a"}
	for n := 1; n <= fightLimit; n++ {
		if count, until := q.note(s, now); count != n || !until.IsZero() {
			t.Fatalf("repair %d: count %d, held until %s", n, count, until)
		}
		now = now.Add(time.Second)
	}
	if _, until := q.note(s, now); until.Sub(now) != quietFirst {
		t.Fatalf("held until %s", until)
	}
	if !q.held(s, now) || q.held(Step{Object: HookFile, Path: "/b"}, now) {
		t.Error("the wrong object is held")
	}
	pauses := []time.Duration{}
	for range 6 {
		now = now.Add(q.next(now))
		if q.held(s, now) {
			t.Fatal("held beyond its pause")
		}
		_, until := q.note(s, now)
		pauses = append(pauses, until.Sub(now))
	}
	want := []time.Duration{2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 15 * time.Minute, 15 * time.Minute, 15 * time.Minute}
	for i := range want {
		if pauses[i] != want[i] {
			t.Errorf("pauses %v, want %v", pauses, want)
			break
		}
	}
	now = now.Add(40 * time.Minute) // peace
	if count, until := q.note(s, now); count != 1 || !until.IsZero() {
		t.Errorf("after peace: %d, %s", count, until)
	}
	for range 100 { // slow changes are no fight
		now = now.Add(10 * time.Second)
		if _, until := q.note(s, now); !until.IsZero() {
			t.Fatal("held after a few repairs a minute")
		}
	}
}
