package endpoint

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/sync/relay"
)

// maxLine bounds one message: an upload carries a batch of at most 8 MiB, in
// base64.
const maxLine = 12 << 20

// Setup is what a child must know before anything else. It goes to the child
// alone, over a pipe, so that secrets are plain in it.
type Setup struct {
	Host     string        `json:"host"`
	Homes    string        `json:"homes,omitempty"` // below --root: each folder is a user
	LogLevel string        `json:"logLevel"`
	Proxy    string        `json:"proxy,omitempty"`
	CAFile   string        `json:"caFile,omitempty"`
	SpoolMax int64         `json:"spoolMax"` // bytes
	SpoolAge time.Duration `json:"spoolAge"`
	SpoolDir string        `json:"spoolDir"`           // empty: the inherited folder
	Loopback string        `json:"loopback,omitempty"` // TCP address for other adapters
	// MetricsEvery overrides the time between two pushes of metrics.
	MetricsEvery time.Duration `json:"metricsEvery,omitempty"`
}

// Config is what the child serves by; each one replaces the one before.
type Config struct {
	Seq      int64           `json:"seq"`
	DeviceID string          `json:"deviceId,omitempty"`
	Group    string          `json:"group,omitempty"`
	Manager  string          `json:"manager,omitempty"` // base URL; empty when not enrolled
	Version  int64           `json:"version"`           // of the signed config, 0 for none
	Issued   time.Time       `json:"issued,omitzero"`   // when it was signed
	Guard    json.RawMessage `json:"guard,omitempty"`   // the signed config's guard object
	Discard  bool            `json:"discard"`           // telemetry is switched off
	// Collector is another destination than the Manager: a full URL.
	Collector string            `json:"collector,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
}

// Applied says what became of a Config.
type Applied struct {
	Seq   int64  `json:"seq"`
	Error string `json:"error,omitempty"`
}

// Stats is the child's state, sent every second and with each Applied.
type Stats struct {
	Relay  relay.Stats       `json:"relay"`
	Export relay.ExportStats `json:"export"`
	Guard  GuardStats        `json:"guard"`
	// Loopback says why a configured loopback listener doesn't answer; empty if
	// it does, or if there is none.
	Loopback string `json:"loopback,omitempty"`
	// Refused says why the child doesn't judge by the config in force; empty if it
	// does. The parent knows.
	Refused string `json:"refused,omitempty"`
}

// upload is a request that the child asks its parent to make as the device.
type upload struct {
	ID     int64       `json:"id"`
	Method string      `json:"method"`
	URI    string      `json:"uri"` // path and query
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// uploaded is the Manager's answer to an upload, or why there is none.
type uploaded struct {
	ID     int64       `json:"id"`
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
	Error  string      `json:"error,omitempty"`
}

// toChild and fromChild are lines of JSON; one member of each is set.
type toChild struct {
	Setup    *Setup    `json:"setup,omitempty"`
	Config   *Config   `json:"config,omitempty"`
	Uploaded *uploaded `json:"uploaded,omitempty"`
	// Users names the machine's accounts by their numbers.
	Users map[string]string `json:"users,omitzero"`
	// Repairs is how many changes to the hooks were undone.
	Repairs *int64 `json:"repairs,omitempty"`
	// Tokens names the callers of the loopback listener by their tokens.
	Tokens map[string]string `json:"tokens,omitzero"`
}

type fromChild struct {
	Ready   bool     `json:"ready,omitempty"`
	Applied *Applied `json:"applied,omitempty"`
	Stats   *Stats   `json:"stats,omitempty"`
	Upload  *upload  `json:"upload,omitempty"`
}

// writer sends messages, each in one write.
type writer struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *writer) send(message any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := json.NewEncoder(w.w)
	e.SetEscapeHTML(false) // a config of nothing but && would be longer than a line may be
	return e.Encode(message)
}

// receive calls f for each message until the other side is gone. A line that
// is too long or no message ends it: what the other side says from then on
// can't be trusted.
func receive[M any](r io.Reader, f func(M) error) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var message M
		if err := json.Unmarshal(line, &message); err != nil {
			return fmt.Errorf("read a message: %w", err)
		}
		if err := f(message); err != nil {
			return err
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var whole []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(whole)+len(part) > maxLine {
			return nil, errors.New("a message is longer than allowed")
		}
		if err == nil && whole == nil {
			return part, nil
		}
		whole = append(whole, part...)
		if err == nil {
			return whole, nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
}
