package relay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

type childConfig struct {
	Dir, Socket, URL string
	Manager          bool
}

// childMain is a relay with small segments and batches, so that a kill finds
// something to interrupt.
func childMain() {
	var c childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &c); err != nil {
		panic(err)
	}
	s, err := spool.Open(c.Dir, spool.Options{Segment: 16 << 10, SyncEvery: 10 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	r := New(Options{Spool: s, Identity: identityOf})
	l, err := serve.Listen(c.Socket, serve.Options{})
	if err != nil {
		panic(err)
	}
	e := NewExporter(ExporterOptions{
		Spool: s, Client: &http.Client{Transport: &http.Transport{}}, Batch: 32 << 10, Linger: 5 * time.Millisecond,
		Destination: func() Destination {
			d := Destination{URL: c.URL}
			if c.Manager {
				d.Sign = func(string, string, []byte) (string, error) { return "Bearer x", nil }
			}
			return d
		},
	})
	go func() { _ = e.Run(context.Background()) }()
	fmt.Println("ready")
	_ = (&http.Server{Handler: r.Handler(), ConnContext: serve.ConnContext}).Serve(l)
}

// manager.md 5: exactly once to the Manager, whenever the agent is killed and
// whatever answers get lost.
func TestKilledAtAnyTimeManager(t *testing.T) { testKills(t, true, 100) }

// To a collector nothing is lost, and what repeats is a batch under way.
func TestKilledAtAnyTimeCollector(t *testing.T) { testKills(t, false, 25) }

func testKills(t *testing.T, exactly bool, kills int) {
	if runtime.GOOS == "windows" {
		t.Skip("dials a Unix socket; the spool's own crash tests run everywhere")
	}
	if testing.Short() {
		kills = 10
	}
	manager := newReceiver(t)
	var calm atomic.Bool
	manager.answer = func(w http.ResponseWriter, r *http.Request, try int, spans []string) int {
		switch {
		case calm.Load():
		case try%7 == 0:
			return http.StatusServiceUnavailable
		case try%5 == 0: // taken, and the connection breaks before the answer
			manager.take(r.Header.Get(BatchHeader), spans)
			panic(http.ErrAbortHandler)
		}
		return 0
	}
	sock, err := os.MkdirTemp("", "relay")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(sock)
	conf := childConfig{Dir: t.TempDir(), Socket: filepath.Join(sock, "s"), URL: manager.URL, Manager: exactly}
	env, _ := json.Marshal(conf)
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+string(env))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("child said %q, %v", line, err)
		}
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}

	var next, answered atomic.Int64
	stop := make(chan struct{})
	var hooks sync.WaitGroup
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", conf.Socket)
	}, DisableKeepAlives: true}
	for range 4 {
		hooks.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rand.IntN(3000)) * time.Microsecond):
				}
				n := int(next.Add(1))
				for { // like the hook's queue: the same span until it was answered for
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					req, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://agent/v1/traces", strings.NewReader(hookSpan(n, "", kv("pad", strings.Repeat("x", n%3000)))))
					req.Header.Set("Content-Type", typeJSON)
					res, err := tr.RoundTrip(req)
					if err == nil {
						_, _ = io.Copy(io.Discard, res.Body)
						res.Body.Close()
					}
					cancel()
					if err == nil && res.StatusCode == 200 {
						answered.Add(1)
						break
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	for range kills {
		cmd := start()
		time.Sleep(time.Duration(5+rand.IntN(60)) * time.Millisecond)
		kill(cmd)
	}
	cmd := start()
	defer kill(cmd)
	close(stop)
	calm.Store(true)
	hooks.Wait()
	n := int(answered.Load())
	eventually(t, "all answered spans", func() bool { return manager.count() >= n })
	time.Sleep(100 * time.Millisecond) // for one too many
	if exactly {
		manager.check(t, n)
	} else if got := manager.count(); got != n {
		t.Errorf("%d spans arrived, want %d", got, n)
	}
	t.Logf("%d kills, %d spans in %d attempts", kills, n, manager.tries)
}
