// Command bench measures whole runs of the hook against an empty Go program
// that reads stdin, interleaved, so that a busy machine slows all alike. It
// prints medians and ratios; hook.md 11 says what they may be.
//
//	go run ./hook/bench [-n 60] [-rounds 3] -hook PATH -empty PATH [-baseline PATH]
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
)

const payload = `{"hook_event_name":"PreToolUse","session_id":"00000000-0000-4000-8000-000000000001","timestamp":"2026-01-02T03:04:05.678Z",` +
	`"cwd":"/home/user/repo","tool_name":"Bash","tool_input":{"command":"echo out-ok","description":"%s"}}`

func main() {
	n := flag.Int("n", 60, "runs of each program in a round")
	rounds := flag.Int("rounds", 3, "rounds; the best counts")
	hook := flag.String("hook", "", "the hook to measure")
	empty := flag.String("empty", "", "the empty program")
	baseline := flag.String("baseline", "", "another hook, to be measured beside it")
	policy := flag.String("policy", "", "a machine policy file: measure the user's run that yields to it too (Linux, root)")
	flag.Parse()
	if os.Getenv(inside) != "" {
		if err := yields(*n, *rounds, *hook, *policy); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*n, *rounds, *hook, *empty, *baseline); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if *policy == "" {
		return
	}
	fmt.Println()
	if err := yielding(*policy, os.Args[1:]); err != nil {
		fmt.Println("no figure for the run that yields:", err)
	}
}

// yields compares, in a private /etc, the user's run that yields to the
// machine's entry with one without endpoints: it shall cost no more. Its
// endpoints are real, and may not be asked. All rounds are one: a few percent
// don't bear that the best is picked.
func yields(n, rounds int, hook, policy string) error {
	if err := yielding(policy, nil); err != nil || os.Getenv(inside) != "client" {
		return err
	}
	dir, err := os.MkdirTemp("", "pinta-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Store(true) }))
	defer server.Close()
	env := func(home string, vars ...string) []string {
		home = filepath.Join(dir, home)
		return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "USER=bench", "PINTA_COPILOT_EVENT=PreToolUse", "PINTA_COPILOT_SOURCE=user"}, vars...)
	}
	small := fmt.Appendf(nil, payload, "probe")
	subjects := []*subject{
		{name: "hook, no endpoints", path: hook, env: env("plain"), stdin: small},
		{name: "the same again (noise)", path: hook, env: env("again"), stdin: small},
		{name: "hook, yields to the machine's entry", path: hook, stdin: small, env: env("yields", "COPILOT_CLI_BINARY_VERSION=1.0.102",
			"PINTA_GUARD_ENDPOINT="+server.URL+"/guard", "COPILOT_PLUGIN_OPTION_ENDPOINT="+server.URL+"/v1/traces")},
	}
	if err := compare(subjects, 3*n*rounds, 1); err != nil {
		return err
	}
	if asked.Load() {
		return errors.New("the run did not yield: it asked")
	}
	return nil
}

// subject is one program in one situation.
type subject struct {
	name  string
	path  string
	env   []string
	stdin []byte
	peak  string // key of its largest resident size, "" if it isn't known
	times []time.Duration
}

func run(n, rounds int, hook, empty, baseline string) error {
	dir, err := os.MkdirTemp("", "pinta-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tcp, socket, err := serve(dir)
	if err != nil {
		return err
	}
	small := fmt.Appendf(nil, payload, "probe")
	large := fmt.Appendf(nil, payload, strings.Repeat("lorem ipsum dolor sit amet ", 1<<20/27))
	env := func(home string, vars ...string) []string {
		home = filepath.Join(dir, home)
		return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "USERPROFILE=" + home, "SystemRoot=" + os.Getenv("SystemRoot"), "USER=bench"}, vars...)
	}
	peers := func(url, who string) []string {
		return []string{"PINTA_GUARD_ENDPOINT=" + url + "/guard", "PINTA_GUARD_TIMEOUT_MS=8000", "COPILOT_PLUGIN_OPTION_ENDPOINT=" + url + "/v1/traces/" + who}
	}
	subjects := []*subject{{name: "empty program", path: empty, env: env("empty"), stdin: small}}
	for i, path := range []string{hook, baseline} {
		if path == "" {
			continue
		}
		who := [...]string{"hook", "baseline"}[i]
		subjects = append(subjects,
			&subject{name: who + ", no endpoints", path: path, env: env(who + "0"), stdin: small},
			&subject{name: who + ", guard and collector, TCP", path: path, env: env(who+"1", peers(tcp, who+"1")...), stdin: small, peak: who + "1"})
		if socket != "" {
			subjects = append(subjects, &subject{name: who + ", guard and collector, socket", path: path, env: env(who+"2", peers(socket, who+"2")...), stdin: small, peak: who + "2"})
		}
	}
	fmt.Printf("%d rounds of %d interleaved runs, %s/%s, %d CPUs; size of the hook %.2f MiB\n\n", rounds, n, runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), sizeOf(hook))
	if err := compare(subjects, n, rounds); err != nil {
		return err
	}

	big := []*subject{{name: "empty program, 1 MiB", path: empty, env: env("empty"), stdin: large}}
	for i, path := range []string{hook, baseline} {
		if path != "" {
			who := [...]string{"hook", "baseline"}[i]
			big = append(big, &subject{name: who + ", guard and collector, 1 MiB", path: path, env: env(who+"3", peers(tcp, who+"3")...), stdin: large, peak: who + "3"})
		}
	}
	fmt.Println()
	if err := compare(big, max(n/3, 5), rounds); err != nil {
		return err
	}
	fmt.Println()
	return together(subjects, 8, max(n/4, 5))
}

// serve starts the guard and collector of the bench on loopback and, where
// there are sockets, on one.
func serve(dir string) (tcp, socket string, err error) {
	mux := http.NewServeMux()
	mux.HandleFunc("/guard", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"decision":"ALLOW","reason":null,"userMessage":null,"durationMs":1}`)
	})
	mux.HandleFunc("/v1/traces/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		notePeak(filepath.Base(r.URL.Path), body)
		_, _ = io.WriteString(w, `{}`)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	go func() { _ = http.Serve(l, mux) }()
	path := filepath.Join(dir, "agent.sock")
	if u, err := net.Listen("unix", path); err == nil && runtime.GOOS != "windows" {
		go func() { _ = http.Serve(u, mux) }()
		socket = local.URL(path, "")
	}
	return "http://" + l.Addr().String(), socket, nil
}

func (s *subject) once() error {
	cmd := exec.Command(s.path)
	cmd.Env, cmd.Stdin = s.env, bytes.NewReader(s.stdin)
	asClient(cmd)
	start := time.Now()
	err := cmd.Run()
	s.times = append(s.times, time.Since(start))
	return err
}

// peaks are the largest resident sizes by subject, in KiB. A process that has
// ended can't be asked, and what wait tells includes its parent's: the
// collector looks while the hook waits for its answer.
var peaks sync.Map

func notePeak(key string, body []byte) {
	_, rest, _ := bytes.Cut(body, []byte(`"process.pid","value":{"intValue":"`))
	pid, _, _ := bytes.Cut(rest, []byte{'"'})
	status, err := os.ReadFile("/proc/" + string(pid) + "/status")
	if err != nil {
		return
	}
	_, rest, _ = bytes.Cut(status, []byte("VmHWM:"))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	if n, err := strconv.Atoi(strings.TrimSpace(string(line))); err == nil {
		if old, ok := peaks.Load(key); !ok || old.(int) < n {
			peaks.Store(key, n)
		}
	}
}

// compare runs the subjects in turn and prints the round with the lowest
// ratios.
func compare(subjects []*subject, n, rounds int) error {
	var best []time.Duration
	var sum float64
	for range rounds {
		for _, s := range subjects {
			s.times = s.times[:0]
		}
		for range n {
			for _, s := range subjects {
				if err := s.once(); err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
			}
		}
		medians := make([]time.Duration, len(subjects))
		total := 0.0
		for i, s := range subjects {
			medians[i] = median(s.times)
			total += float64(medians[i]) / float64(medians[0])
		}
		if best == nil || total < sum {
			best, sum = medians, total
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for i, s := range subjects {
		fmt.Fprintf(w, "%s\t%.2f ms\t%.2f ×", s.name, ms(best[i]), float64(best[i])/float64(best[0]))
		if peak, ok := peaks.Load(s.peak); ok {
			fmt.Fprintf(w, "\tpeak %.1f MiB", float64(peak.(int))/1024)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// together runs k of each subject at once and prints how long all took.
func together(subjects []*subject, k, n int) error {
	times := make([][]time.Duration, len(subjects))
	for range n {
		for i, s := range subjects {
			var wg sync.WaitGroup
			start := time.Now()
			for range k {
				wg.Go(func() {
					cmd := exec.Command(s.path)
					cmd.Env, cmd.Stdin = s.env, bytes.NewReader(s.stdin)
					_ = cmd.Run()
				})
			}
			wg.Wait()
			times[i] = append(times[i], time.Since(start))
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for i, s := range subjects {
		m := median(times[i])
		fmt.Fprintf(w, "%s, %d at once\t%.2f ms\t%.2f ×\n", s.name, k, ms(m), float64(m)/float64(median(times[0])))
	}
	return w.Flush()
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func sizeOf(path string) float64 {
	fi, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return float64(fi.Size()) / (1 << 20)
}
