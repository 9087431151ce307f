package manager

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A publication wakes as many as come back, not all at once; who doesn't come back isn't waited for.
func TestWakesByAndBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		h.load([]configRecord{{Group: "g", ETag: "1"}})
		const n = 4 * wakeWindow
		var woken atomic.Int64
		names := make(chan string, n)
		for i := range n {
			id := fmt.Sprint(i)
			h.add(id, "1", &waiter{group: "g", wake: func() { woken.Add(1); names <- id }})
		}
		h.load([]configRecord{{Group: "g", ETag: "2"}})
		time.Sleep(10 * wakeStep)
		synctest.Wait()
		equal(t, woken.Load(), int64(wakeWindow))
		for range wakeWindow / 2 {
			h.came(<-names)
		}
		time.Sleep(10 * wakeStep)
		synctest.Wait()
		equal(t, woken.Load(), int64(wakeWindow+wakeWindow/2))
		time.Sleep(10 * wakePatience)
		synctest.Wait()
		equal(t, woken.Load(), int64(n))
	})
}

func TestEndWakesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub()
		h.load([]configRecord{{Group: "g", ETag: "1"}})
		var woken atomic.Int64
		for i := range 1000 {
			h.add(fmt.Sprint(i), "1", &waiter{group: "g", wake: func() { woken.Add(1) }})
		}
		h.held.Add(1000)
		h.release()
		equal(t, woken.Load(), int64(1000))
		equal(t, h.crowd, int64(1000))
		late := false
		h.add("late", "1", &waiter{group: "g", wake: func() { late = true }})
		equal(t, late, true)
	})
}

// A second poll of a device ends the first, and the first's end doesn't take the second's place.
func TestSecondPoll(t *testing.T) {
	h := newHub()
	h.load([]configRecord{{Group: "g", ETag: "1"}})
	var one, two int
	remove := h.add("d", "1", &waiter{group: "g", wake: func() { one++ }})
	h.add("d", "1", &waiter{group: "g", wake: func() { two++ }})
	remove()
	h.poke("d")
	equal(t, one, 1)
	equal(t, two, 1)
	h.add("e", "0", &waiter{group: "g", wake: func() { one++ }}) // what it has is old already
	equal(t, one, 2)
}

func TestLongWaitsComeApart(t *testing.T) {
	for range 100 {
		if d := apart(55 * time.Second); d < 44*time.Second || d > 55*time.Second {
			t.Fatal(d)
		}
		if d := apart(time.Second); d != time.Second {
			t.Fatal(d)
		}
	}
}
