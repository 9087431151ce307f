package hook_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const (
	defaultGuard = `{"decision":"ALLOW","reason":null,"userMessage":null,"durationMs":1}`
	defaultFile  = "COPILOT_PLUGIN_OPTION_ENDPOINT=${COLLECTOR}/v1/traces\nCOPILOT_PLUGIN_OPTION_HEADERS=x-pinta-relay-token=${TOKEN}\n" +
		"PINTA_GUARD_ENDPOINT=${GUARD}/guard/evaluate\nPINTA_RELAY_TOKEN=${TOKEN}\nPINTA_GUARD_TIMEOUT_MS=2000\n"
	dataDir = "pinta-copilot-data"
)

// TestConformance runs the contract's cases, whose data is copied literally,
// and TestCases our own of the same form.
func TestConformance(t *testing.T) { runCases(t, "testdata/conformance") }
func TestCases(t *testing.T)       { runCases(t, "testdata/cases") }

func runCases(t *testing.T, dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", dir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := decodeOrdered(data)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		group := strings.TrimSuffix(filepath.Base(file), ".json")
		for _, c := range cases.([]any) {
			c := c.(object)
			t.Run(group+"/"+c.str("id", "?"), func(t *testing.T) {
				t.Parallel()
				if want := c.str("os", ""); want != "" && want != runtime.GOOS {
					t.Skip("this case is about " + want)
				}
				runCase(t, c)
			})
		}
	}
}

// world is one case's machine: a home and two servers.
type world struct {
	root, home       string
	guard, collector *stub
	names            map[string]string
}

func newWorld(t testing.TB, guard, collector []reply) *world {
	w := &world{root: t.TempDir(), guard: newStub(t, guard...), collector: newStub(t, collector...)}
	w.home = filepath.Join(w.root, "home", ".copilot")
	if err := os.MkdirAll(w.home, 0o755); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC()
	iso := func(d time.Duration) string { return now.Add(d).Format("2006-01-02T15:04:05.000Z") }
	w.names = map[string]string{
		"GUARD": w.guard.URL, "COLLECTOR": w.collector.URL, "HOME": filepath.Dir(w.home), "COPILOT_HOME": w.home, "TMP": w.root, "TOKEN": relayToken,
		"NOW_ISO": iso(0), "NOW_MS": strconv.FormatInt(now.UnixMilli(), 10), "PAST_ISO": iso(-time.Minute), "FUTURE_ISO": iso(time.Hour),
	}
	return w
}

// write puts a file below COPILOT_HOME.
func (w *world) write(t testing.TB, rel string, data []byte) {
	t.Helper()
	path := filepath.Join(w.home, filepath.FromSlash(rel))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (w *world) envFile(t testing.TB, text string) {
	w.write(t, "pinta-copilot.env", []byte(fill(text, w.names).(string)))
}

// env is the environment of a run: what every host gives, changed by extra.
func (w *world) env(extra map[string]string, unset ...string) []string {
	vars := map[string]string{"PATH": "/usr/bin:/bin", "HOME": w.names["HOME"], "USERPROFILE": w.names["HOME"], "COPILOT_HOME": w.home, "LANG": "C.UTF-8", "USER": "dev",
		"SystemRoot": os.Getenv("SystemRoot")}
	for k, v := range extra {
		vars[k] = fill(v, w.names).(string)
	}
	var out []string
	for k, v := range vars {
		if !slices.Contains(unset, k) {
			out = append(out, k+"="+v)
		}
	}
	return out
}

func runCase(t *testing.T, c object) {
	w := newWorld(t, script(c.any("guard"), defaultGuard), script(c.any("collector"), "{}"))
	if raw, ok := c.get("env_file_b64"); ok {
		data, err := base64.StdEncoding.DecodeString(raw.(string))
		if err != nil {
			t.Fatal(err)
		}
		w.write(t, "pinta-copilot.env", data)
	} else if text, ok := c.get("env_file"); !ok {
		w.envFile(t, defaultFile)
	} else if text != nil {
		w.envFile(t, expand(text).(string))
	}
	w.files(t, c.obj("files"))
	steps := c.list("steps")
	if steps == nil {
		steps = []any{c}
	}
	for i, step := range steps {
		step := step.(object)
		if err := w.step(t, c, step); err != nil {
			t.Fatalf("step %d: %s: %v", i, c.str("title", ""), err)
		}
	}
	if want := c.list("one_trace"); want != nil {
		checkTraces(t, want, spansOf(t, w.collector.requests()))
	}
}

func checkTraces(t *testing.T, groups []any, got []otlpSpan) {
	if len(got) != len(groups) {
		t.Fatalf("%d spans, expected %d", len(got), len(groups))
	}
	for a := range got {
		for b := range a {
			if (got[a].trace == got[b].trace) != (groups[a] == groups[b]) {
				t.Errorf("spans %d and %d: traces %s, %s; groups %v, %v", b, a, got[b].trace, got[a].trace, groups[b], groups[a])
			}
		}
	}
}

func (w *world) files(t *testing.T, files object) {
	for _, f := range files {
		switch content := expand(f.value).(type) {
		case object:
			if content.bool("$dir") {
				if err := os.MkdirAll(filepath.Join(w.home, f.key), 0o755); err != nil {
					t.Fatal(err)
				}
				continue
			}
			w.write(t, f.key, encode(fill(content, w.names)))
		case []any:
			var b bytes.Buffer
			for _, line := range content {
				line = fill(line, w.names)
				if s, ok := line.(string); ok {
					b.WriteString(s + "\n")
				} else {
					b.Write(append(encode(line), '\n'))
				}
			}
			w.write(t, f.key, b.Bytes())
		case string:
			w.write(t, f.key, []byte(fill(content, w.names).(string)))
		}
	}
}

func script(v any, def string) []reply {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []reply
	for _, item := range list {
		o, _ := item.(object)
		r := reply{status: o.num("status", 200), delay: time.Duration(o.num("delay_ms", 0)) * time.Millisecond, headers: map[string]string{}}
		switch body, hasBody := o.get("body"); {
		case o == nil:
			r.body = []byte(def)
		case o.any("raw") != nil:
			r.body = []byte(expand(o.any("raw")).(string))
		case hasBody:
			r.body = encode(expand(body))
		default:
			r.body = []byte("{}")
		}
		if n := o.num("repeat", 0); n > 0 {
			r.body = bytes.Repeat(r.body, n)
		}
		for _, h := range o.obj("headers") {
			r.headers[h.key] = h.value.(string)
		}
		out = append(out, r)
	}
	return out
}

func (w *world) step(t *testing.T, c, step object) error {
	extra := map[string]string{}
	for _, vars := range []object{c.obj("env"), step.obj("env")} {
		for _, v := range vars {
			extra[v.key] = v.value.(string)
		}
	}
	var unset []string
	for _, k := range c.list("env_unset") {
		unset = append(unset, k.(string))
	}
	in := feed{hold: step.bool("hold_stdin"), limit: time.Duration(step.num("kill_after_s", 20)) * time.Second}
	switch {
	case step.any("stdin_b64") != nil:
		data, err := base64.StdEncoding.DecodeString(step.str("stdin_b64", ""))
		if err != nil {
			return err
		}
		in.data = data
	case step.any("stdin_raw") != nil:
		in.data = []byte(fill(expand(step.any("stdin_raw")), w.names).(string))
	default:
		in.data = encode(fill(expand(step.obj("stdin")), w.names))
	}
	if d := step.list("drip"); d != nil {
		in.piece, in.pause = object{{"", d[0]}}.num("", 1), time.Duration(object{{"", d[1]}}.num("", 0))*time.Millisecond
	}
	guarded, collected := len(w.guard.requests()), len(w.collector.requests())
	runs := make([]outcome, step.num("parallel", 1))
	done := make(chan struct{})
	for i := range runs {
		go func() {
			runs[i] = invoke(t, in, w.env(extra, unset...), w.root)
			done <- struct{}{}
		}()
	}
	for range runs {
		<-done
	}
	time.Sleep(time.Duration(step.num("settle_ms", 0)) * time.Millisecond)
	want, _ := fill(expand(step.obj("expect")), w.names).(object)
	// A hook that gave up on a slow peer may end before the peer has noted it.
	deadline := time.Now().Add(time.Second)
	for time.Now().Before(deadline) && (len(w.guard.requests())-guarded < want.num("guard_requests", 0) || len(w.collector.requests())-collected < want.num("collector_requests", 0)) {
		time.Sleep(10 * time.Millisecond)
	}
	for _, r := range runs {
		if err := checkRun(want, r); err != nil {
			return err
		}
	}
	return w.checkTraffic(t, want, w.guard.requests()[guarded:], w.collector.requests()[collected:])
}

// checkRun compares what the host saw, and holds every run to the invariants.
func checkRun(want object, r outcome) error {
	if r.code != want.num("exit", 0) {
		return fmt.Errorf("exit %d; stderr %q", r.code, clip(r.stderr))
	}
	if err := checkInvariants(r); err != nil {
		return err
	}
	if want.bool("stdout_empty") && r.stdout != "" {
		return fmt.Errorf("stdout %q, expected nothing", clip(r.stdout))
	}
	if w, ok := want.get("stdout"); ok {
		got, err := decodeOrdered([]byte(r.stdout))
		if err != nil {
			return fmt.Errorf("stdout %q: %v", clip(r.stdout), err)
		}
		if err := match(w, got, "stdout"); err != nil {
			return err
		}
	}
	for _, s := range want.list("stdout_not_contains") {
		if strings.Contains(r.stdout, s.(string)) {
			return fmt.Errorf("stdout shows %q", s)
		}
	}
	for _, s := range want.list("stderr_contains") {
		if !strings.Contains(strings.ToLower(r.stderr), strings.ToLower(s.(string))) {
			return fmt.Errorf("stderr lacks %q: %q", s, clip(r.stderr))
		}
	}
	for _, s := range want.list("stderr_not_contains") {
		if strings.Contains(r.stderr, s.(string)) {
			return fmt.Errorf("stderr shows %q", s)
		}
	}
	if ms := want.num("max_ms", 0); ms > 0 && r.took > time.Duration(ms)*time.Millisecond {
		if busy := slowness(); r.took > time.Duration(float64(ms)*busy)*time.Millisecond {
			return fmt.Errorf("took %v, bound %d ms, machine %.1f times slower than idle", r.took, ms, busy)
		}
	}
	return nil
}

// slowness tells how much longer than on an idle machine a run takes now: the
// bounds of the cases find hangs, not busy neighbours.
func slowness() float64 {
	start := time.Now()
	for range 3 {
		cmd := exec.Command(hookBinary)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "SystemRoot=" + os.Getenv("SystemRoot")}
		cmd.Stdin = strings.NewReader("{}")
		_ = cmd.Run()
	}
	const idle = 3 * 30 * time.Millisecond
	return max(1, float64(time.Since(start))/float64(idle))
}

// checkInvariants holds for every run whatever came in (hook.md 1).
func checkInvariants(r outcome) error {
	if r.code != 0 {
		return fmt.Errorf("exit %d; stderr %q", r.code, clip(r.stderr))
	}
	if out := r.stdout; out != "" {
		v, err := decodeOrdered([]byte(out))
		if err != nil {
			return fmt.Errorf("stdout is not one JSON document: %v: %q", err, clip(out))
		}
		if _, ok := v.(object); !ok || out[0] != '{' || !strings.HasSuffix(out, "}\n") || strings.Count(out, "\n") != 1 || strings.Contains(out, "\r") {
			return fmt.Errorf("stdout is not one object and one LF: %q", clip(out))
		}
		if !utf8.ValidString(out) {
			return fmt.Errorf("stdout is not UTF-8")
		}
	}
	if r.brokenPipe {
		return fmt.Errorf("the hook closed stdin before the host had written it")
	}
	for line := range strings.Lines(r.stderr) {
		if !strings.HasPrefix(line, "pinta-copilot:") || len(line) > 400 {
			return fmt.Errorf("stderr line without prefix or too long: %q", clip(line))
		}
	}
	if strings.Contains(r.stderr, relayToken) {
		return fmt.Errorf("stderr shows the token")
	}
	return nil
}

func (w *world) checkTraffic(t testing.TB, want object, guarded, collected []request) error {
	for _, k := range []string{"guard_headers", "guard_path", "guard_span", "same_trace_as_guard"} {
		if _, ok := want.get(k); ok && len(guarded) == 0 {
			return fmt.Errorf("the guard was not asked")
		}
	}
	for _, k := range []string{"collector_headers", "collector_path"} {
		if _, ok := want.get(k); ok && len(collected) == 0 {
			return fmt.Errorf("the collector was sent nothing")
		}
	}
	if n := want.num("guard_requests", len(guarded)); n != len(guarded) {
		return fmt.Errorf("the guard was asked %d times, expected %d", len(guarded), n)
	}
	if n := want.num("collector_requests", len(collected)); n != len(collected) {
		return fmt.Errorf("the collector got %d requests, expected %d", len(collected), n)
	}
	for _, side := range []struct {
		name string
		got  []request
	}{{"guard", guarded}, {"collector", collected}} {
		for _, h := range want.obj(side.name + "_headers") {
			var got any
			if v, ok := side.got[0].headers[strings.ToLower(h.key)]; ok {
				got = v
			}
			if err := match(h.value, got, side.name+" header "+h.key); err != nil {
				return err
			}
		}
		if p, ok := want.get(side.name + "_path"); ok {
			if err := match(p, side.got[0].path, side.name+" path"); err != nil {
				return err
			}
		}
	}
	if s, ok := want.get("guard_span"); ok {
		got := spansOf(t, guarded)
		if len(got) != 1 {
			return fmt.Errorf("the guard body holds %d spans", len(got))
		}
		if err := checkSpan(s.(object), got[0], "guard span"); err != nil {
			return err
		}
	}
	sent := spansOf(t, collected)
	if wanted, ok := want.get("spans"); ok {
		if err := checkSpans(wanted.([]any), sent, "span"); err != nil {
			return err
		}
	}
	for _, q := range collected {
		if len(q.body) > 921_600 {
			return fmt.Errorf("a POST of %d bytes", len(q.body))
		}
	}
	for _, q := range append(collected, guarded...) {
		for _, s := range want.list("telemetry_not_contains") {
			if bytes.Contains(q.body, []byte(s.(string))) {
				return fmt.Errorf("telemetry or guard body shows %q", s)
			}
		}
	}
	queued := w.queued(t)
	if want.bool("same_trace_as_guard") {
		g, s := spansOf(t, guarded)[0], append(queued, sent...)
		if last := s[len(s)-1]; g.trace != last.trace || g.id != last.id {
			return fmt.Errorf("the judged span and the sent span differ")
		}
	}
	if n := want.num("queued", len(queued)); n != len(queued) {
		return fmt.Errorf("%d spans wait in the queue, expected %d", len(queued), n)
	}
	if wanted := want.list("queued_spans"); wanted != nil {
		if err := checkSpans(wanted, queued[:min(len(queued), len(wanted))], "queued"); err != nil {
			return err
		}
	}
	return w.checkHome(want)
}

func (w *world) checkHome(want object) error {
	return filepath.WalkDir(w.home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if want.bool("private_files") && strings.Contains(path, dataDir) && runtime.GOOS != "windows" {
			fi, err := d.Info()
			if err != nil {
				return err
			}
			if fi.Mode().Perm()&0o077 != 0 {
				return fmt.Errorf("%s has mode %o", path, fi.Mode().Perm())
			}
		}
		if !d.Type().IsRegular() || strings.HasSuffix(path, ".env") {
			return nil
		}
		data, err := os.ReadFile(path)
		for _, s := range want.list("home_not_contains") {
			if bytes.Contains(data, []byte(s.(string))) {
				return fmt.Errorf("%s keeps %q", path, s)
			}
		}
		return err
	})
}

// otlpSpan is a span as a collector reads it.
type otlpSpan struct {
	name, trace, id, start, end string
	kind                        any
	attrs, resource, scope      object
	order                       []string
	dup                         []string
}

func spansOf(t testing.TB, requests []request) (out []otlpSpan) {
	for _, q := range requests {
		doc, err := decodeOrdered(q.body)
		if err != nil {
			t.Fatalf("a body is not JSON: %v", err)
		}
		out = append(out, spansIn(t, doc.(object))...)
	}
	return out
}

func spansIn(t testing.TB, doc object) (out []otlpSpan) {
	for _, rs := range doc.list("resourceSpans") {
		resource, _, _ := attrsOf(t, rs.(object).obj("resource").list("attributes"))
		for _, ss := range rs.(object).list("scopeSpans") {
			for _, s := range ss.(object).list("spans") {
				s := s.(object)
				o := otlpSpan{name: s.str("name", ""), trace: s.str("traceId", ""), id: s.str("spanId", ""), kind: s.any("kind"),
					start: s.str("startTimeUnixNano", ""), end: s.str("endTimeUnixNano", ""), resource: resource, scope: ss.(object).obj("scope")}
				o.attrs, o.order, o.dup = attrsOf(t, s.list("attributes"))
				out = append(out, o)
			}
		}
	}
	return out
}

func attrsOf(t testing.TB, list []any) (out object, order, dup []string) {
	for _, item := range list {
		key, value := item.(object).str("key", ""), item.(object).obj("value")
		if len(value) != 1 {
			t.Fatalf("%s: value %v", key, value)
		}
		v := value[0].value
		switch value[0].key {
		case "intValue":
			s, ok := v.(string)
			if _, err := strconv.ParseInt(s, 10, 64); !ok || err != nil {
				t.Fatalf("%s: intValue must be a decimal string, got %v", key, v)
			}
			v = json.Number(s)
		case "stringValue", "boolValue", "doubleValue":
		default:
			t.Fatalf("%s: unknown kind of value %s", key, value[0].key)
		}
		if _, twice := out.get(key); twice {
			dup = append(dup, key)
		}
		out, order = append(out, member{key, v}), append(order, key)
	}
	return out, order, dup
}

var (
	traceID = regexp.MustCompile(`^[0-9a-f]{32}$`)
	spanID  = regexp.MustCompile(`^[0-9a-f]{16}$`)
)

func checkSpans(want []any, got []otlpSpan, where string) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d %ss, expected %d", len(got), where, len(want))
	}
	for i := range want {
		if err := checkSpan(want[i].(object), got[i], fmt.Sprintf("%s[%d]", where, i)); err != nil {
			return err
		}
	}
	return nil
}

func checkSpan(want object, got otlpSpan, where string) error {
	for _, f := range []struct {
		key string
		got any
	}{{"name", got.name}, {"kind", got.kind}, {"traceId", got.trace}, {"spanId", got.id}} {
		if w, ok := want.get(f.key); ok {
			if err := match(w, f.got, where+"."+f.key); err != nil {
				return err
			}
		}
	}
	switch {
	case !traceID.MatchString(got.trace) || strings.Trim(got.trace, "0") == "":
		return fmt.Errorf("%s: bad traceId %q", where, got.trace)
	case !spanID.MatchString(got.id) || strings.Trim(got.id, "0") == "":
		return fmt.Errorf("%s: bad spanId %q", where, got.id)
	case got.start == "" || got.start != got.end:
		return fmt.Errorf("%s: start %q, end %q", where, got.start, got.end)
	case len(got.dup) > 0:
		return fmt.Errorf("%s: duplicate keys %v", where, got.dup)
	}
	if _, err := strconv.ParseUint(got.start, 10, 64); err != nil {
		return fmt.Errorf("%s: start: %v", where, err)
	}
	if got.scope.str("name", "") == "pinta-copilot" {
		if len(got.order) < 3 || !slices.Equal(got.order[:3], []string{"ingest.type", "copilot.hook", "copilot.surface"}) {
			return fmt.Errorf("%s: attributes begin %v", where, got.order)
		}
		guarded := false
		for _, k := range got.order {
			is := strings.HasPrefix(k, "pinta.guard.") || strings.HasPrefix(k, "pinta.client.")
			if guarded && !is {
				return fmt.Errorf("%s: guard attributes are not last: %v", where, got.order)
			}
			guarded = is
		}
	}
	for _, a := range want.obj("attrs") {
		v, ok := got.attrs.get(a.key)
		if !ok {
			return fmt.Errorf("%s lacks %s; has %v", where, a.key, got.order)
		}
		if err := match(a.value, v, where+"."+a.key); err != nil {
			return err
		}
	}
	for _, k := range want.list("absent") {
		if v, ok := got.attrs.get(k.(string)); ok {
			return fmt.Errorf("%s must not carry %s (%v)", where, k, clip(v))
		}
	}
	for _, a := range want.obj("resource") {
		if err := match(a.value, got.resource.any(a.key), where+".resource."+a.key); err != nil {
			return err
		}
	}
	for _, k := range want.list("resource_absent") {
		if _, ok := got.resource.get(k.(string)); ok {
			return fmt.Errorf("%s: the resource must not carry %s", where, k)
		}
	}
	for _, a := range want.obj("scope") {
		if err := match(a.value, got.scope.any(a.key), where+".scope."+a.key); err != nil {
			return err
		}
	}
	return nil
}

// queued reads the spans that wait in the queue's documented file.
func (w *world) queued(t testing.TB) (out []otlpSpan) {
	data, err := os.ReadFile(filepath.Join(w.home, dataDir, "failed-spans.jsonl"))
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(data) {
		doc, err := decodeOrdered(line)
		if err != nil {
			continue
		}
		if entry, ok := doc.(object); ok && entry.obj("payload") != nil {
			out = append(out, spansIn(t, entry.obj("payload"))...)
		}
	}
	return out
}
