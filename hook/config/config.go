// Package config is the hook's registry of settings: the process environment,
// filled up from pinta-copilot.env (hook.md 9). It holds the name of every
// variable the hook reads; nothing else in the hook looks into the
// environment. It is not the agent's configuration.
package config

import (
	"bytes"
	"math"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Names of the variables that are the hook's own.
const (
	Event            = "PINTA_COPILOT_EVENT"
	Source           = "PINTA_COPILOT_SOURCE"
	GuardEndpoint    = "PINTA_GUARD_ENDPOINT"
	GuardTimeout     = "PINTA_GUARD_TIMEOUT_MS"
	GuardDisabled    = "PINTA_GUARD_DISABLED"
	RelayToken       = "PINTA_RELAY_TOKEN"
	TelemetryTimeout = "PINTA_TELEMETRY_TIMEOUT_MS"
	Home             = "COPILOT_HOME"
	DataDir          = "COPILOT_PLUGIN_DATA"
	Endpoint         = "COPILOT_PLUGIN_OPTION_ENDPOINT"
	Headers          = "COPILOT_PLUGIN_OPTION_HEADERS"
	OTLPTraces       = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	OTLPEndpoint     = "OTEL_EXPORTER_OTLP_ENDPOINT"
	OTLPHeaders      = "OTEL_EXPORTER_OTLP_HEADERS"
)

// RelayHeader carries the relay token to guard and collector.
const RelayHeader = "x-pinta-relay-token"

const (
	// MaxEnvFile is the size of the largest env file that is read (hook.md 2).
	MaxEnvFile = 1 << 20

	defaultGuard     = 100 * time.Millisecond
	maxGuard         = 8 * time.Second
	defaultTelemetry = time.Second
	maxTelemetry     = 4 * time.Second
	perMiB           = 100 * time.Millisecond
)

// Env answers for one variable: the process's value if it is set, even to
// nothing, else the env file's.
type Env struct {
	process func(string) (string, bool)
	file    map[string]string
}

// New returns the settings of a process whose variables lookup finds.
func New(lookup func(string) (string, bool)) *Env { return &Env{process: lookup} }

// Lookup returns a variable and whether anybody set it.
func (e *Env) Lookup(key string) (string, bool) {
	if v, ok := e.process(key); ok {
		return v, true
	}
	v, ok := e.file[key]
	return v, ok
}

// Get returns a variable, trimmed.
func (e *Env) Get(key string) string {
	v, _ := e.Lookup(key)
	return strings.TrimSpace(v)
}

// Process returns a variable of the process alone, not of the env file:
// what the host says about itself.
func (e *Env) Process(key string) string {
	v, _ := e.process(key)
	return v
}

// first returns the first of the variables that is set at all: set to nothing
// it switches its feature off instead of handing over to the next.
func (e *Env) first(keys ...string) (value, key string) {
	for _, k := range keys {
		if v, ok := e.Lookup(k); ok {
			return strings.TrimSpace(v), k
		}
	}
	return "", ""
}

// CopilotHome is COPILOT_HOME, else ~/.copilot; "" when there is no home.
func (e *Env) CopilotHome() string {
	if h := e.Get(Home); h != "" {
		return h
	}
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	if h := e.Process(name); h != "" {
		return filepath.Join(h, ".copilot")
	}
	return ""
}

// File is the path of the env file, "" when there is no home.
func (e *Env) File() string {
	if h := e.CopilotHome(); h != "" {
		return filepath.Join(h, "pinta-copilot.env")
	}
	return ""
}

// Data is the folder of the trace store and the queue, "" when there is none.
func (e *Env) Data() string {
	if d := e.Get(DataDir); d != "" {
		return d
	}
	if h := e.CopilotHome(); h != "" {
		return filepath.Join(h, "pinta-copilot-data")
	}
	return ""
}

// Guard is the guard's endpoint, "" when nobody is to be asked.
func (e *Env) Guard() string {
	if v, _ := e.Lookup(GuardDisabled); v == "1" {
		return ""
	}
	return e.Get(GuardEndpoint)
}

// GuardBudget is the time that one guard question of size bytes may take.
func (e *Env) GuardBudget(size int) time.Duration {
	base := e.duration(GuardTimeout, defaultGuard, maxGuard)
	return min(base+time.Duration(size>>20)*perMiB, maxGuard)
}

// TelemetryBudget is the time for all collector traffic of the run.
func (e *Env) TelemetryBudget() time.Duration {
	return e.duration(TelemetryTimeout, defaultTelemetry, maxTelemetry)
}

// duration reads milliseconds, finite and positive; else it is def.
func (e *Env) duration(key string, def, most time.Duration) time.Duration {
	ms, err := strconv.ParseFloat(e.Get(key), 64)
	if err != nil || !(ms > 0) || math.IsInf(ms, 1) {
		return def
	}
	if ms >= float64(most/time.Millisecond) {
		return most
	}
	return max(time.Duration(ms*float64(time.Millisecond)), time.Millisecond)
}

// Collector is the URL that spans are posted to, "" when telemetry is off.
func (e *Env) Collector() string {
	v, key := e.first(Endpoint, OTLPTraces, OTLPEndpoint)
	if key != OTLPEndpoint || v == "" {
		return v
	}
	base, query, _ := strings.Cut(v, "?")
	v = strings.TrimRight(base, "/") + "/v1/traces"
	if query != "" {
		v += "?" + query
	}
	return v
}

// Header is one header of the telemetry requests, its name in lower case.
type Header struct{ Name, Value string }

// TelemetryHeaders are the configured headers, the last of each name.
func (e *Env) TelemetryHeaders() []Header {
	v, key := e.first(Headers, OTLPHeaders)
	return parseHeaders(v, key == OTLPHeaders)
}

// Token is the relay token of the guard question: its own variable, else the
// header of that name among the telemetry headers, else nothing.
func (e *Env) Token() string {
	if v, ok := e.Lookup(RelayToken); ok {
		if v = strings.TrimSpace(v); validValue(v) {
			return v
		}
		return ""
	}
	for _, h := range e.TelemetryHeaders() {
		if h.Name == RelayHeader {
			return h.Value
		}
	}
	return ""
}

// parseHeaders reads k=v,k=v. Bad entries are dropped, alone.
func parseHeaders(s string, percent bool) []Header {
	if s == "" {
		return nil
	}
	var out []Header
next:
	for part := range strings.SplitSeq(s, ",") {
		name, value, ok := strings.Cut(part, "=")
		name, value = strings.ToLower(strings.TrimSpace(name)), strings.TrimSpace(value)
		if percent {
			value = unescape(value)
		}
		if !ok || !token(name) || !validValue(value) || reserved(name) {
			continue
		}
		for i := range out {
			if out[i].Name == name {
				out[i].Value = value
				continue next
			}
		}
		out = append(out, Header{name, value})
	}
	return out
}

// reserved names belong to the client: a configured value would frame the
// request anew or contradict what is sent.
func reserved(name string) bool {
	switch name {
	case "host", "content-length", "connection", "transfer-encoding", "content-type", "user-agent", "expect", "te", "trailer", "upgrade":
		return true
	}
	return false
}

func token(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

func validValue(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// unescape decodes %XX; a bad % and + stay as they are.
func unescape(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b = append(b, byte(n))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// Fill takes what the env file sets; of repeated keys the last wins.
func (e *Env) Fill(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	for len(data) > 0 {
		var line []byte
		if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
			line, data = data[:i], data[i+1:]
		} else {
			line, data = data, nil
		}
		key, value, ok := parseLine(string(line))
		if !ok {
			continue
		}
		if e.file == nil {
			e.file = make(map[string]string, 8)
		}
		e.file[key] = value
	}
}

func parseLine(line string) (key, value string, ok bool) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", "", false
	}
	if rest, found := strings.CutPrefix(line, "export"); found && rest != "" && (rest[0] == ' ' || rest[0] == '\t') {
		line = strings.TrimSpace(rest)
	}
	key, value, ok = strings.Cut(line, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	if n := len(value); n >= 2 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		value = value[1 : n-1]
	}
	return key, value, ok && key != "" && !strings.ContainsAny(key, " \t\x00")
}
