package queue

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile/faults"
)

// TestMain is also one hook run: it appends a span, or flushes to a collector, perhaps dying on the way.
func TestMain(m *testing.M) {
	dir := os.Getenv("QUEUE_TEST_DIR")
	if dir == "" {
		os.Exit(m.Run())
	}
	faults.KillFromEnv()
	var err error
	if url := os.Getenv("QUEUE_TEST_URL"); url != "" {
		_, err = Flush(dir, now, time.Now().Add(10*time.Second), func(body []byte) (Outcome, error) {
			r, err := http.Post(url, "application/json", strings.NewReader(string(body)))
			if err != nil {
				return Keep, err
			}
			r.Body.Close()
			return Delivered, nil
		})
	} else {
		_, err = Append(dir, payload(os.Getenv("QUEUE_TEST_ID"), 3000), now)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(dir string, env ...string) error {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), append(env, "QUEUE_TEST_DIR="+dir)...)
	c.Stderr = os.Stderr
	return c.Run()
}

func serve(t *testing.T) (c *collector, url string) {
	c = &collector{t: t}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.send(body)
	}))
	t.Cleanup(s.Close)
	return c, s.URL
}

func TestSixtyProcesses(t *testing.T) {
	dir := t.TempDir()
	c, url := serve(t)
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			if err := run(dir, fmt.Sprintf("QUEUE_TEST_ID=%02d", i)); err != nil {
				t.Error(err)
			}
		})
		if i%20 == 10 { // flushes run into the appends
			wg.Go(func() {
				if err := run(dir, "QUEUE_TEST_URL="+url); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if err := run(dir, "QUEUE_TEST_URL="+url); err != nil {
		t.Fatal(err)
	}
	got := c.delivered()
	slices.Sort(got)
	if len(got) != 60 || len(slices.Compact(slices.Clone(got))) != 60 {
		t.Fatalf("%d spans delivered: %v", len(got), got)
	}
}

// kill -9 before each step of an append and in the middle of its write: others' spans are safe, the next append is sound.
func TestKilledAppend(t *testing.T) {
	for _, half := range []bool{false, true} {
		for n := range 10 {
			dir := t.TempDir()
			add(t, dir, "a")
			alive := run(dir, faults.KillEnv(n, half), "QUEUE_TEST_ID=k") == nil
			add(t, dir, "b")
			got := waiting(t, dir)
			if !slices.Equal(got, []string{"a", "b"}) && !slices.Equal(got, []string{"a", "k", "b"}) {
				t.Fatalf("step %d: waiting %v", n, got)
			}
			if alive {
				if len(got) != 3 {
					t.Fatalf("the append that lived lost its span: %v", got)
				}
				break
			}
		}
	}
}

// kill -9 at each step of a flush: nothing is lost, only the last body may be delivered again, with the same ids.
func TestKilledFlush(t *testing.T) {
	for _, half := range []bool{false, true} {
		for n := 0; ; n += 1 + n/8 { // closely at first, in strides through the many blanks
			dir := t.TempDir()
			var want []string
			for i := range 5 {
				id := fmt.Sprint(i)
				want = append(want, id)
				Append(dir, payload(id, 400_000), now) // two a body
			}
			c, url := serve(t)
			alive := run(dir, faults.KillEnv(n, half), "QUEUE_TEST_URL="+url) == nil
			c.flush(dir)
			got := c.delivered()
			if again := len(got) - len(want); again > 2 || alive && again != 0 {
				t.Fatalf("step %d: %d spans repeated: %v", n, again, got)
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Fatalf("step %d: delivered %v", n, got)
			}
			if alive {
				break
			}
		}
	}
}
