package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/local"
	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// The control endpoint is for commands of the administrator (or, in user mode,
// of the user) beside the running service. It is a socket of its own that
// nobody else can connect to; hooks never see it.

// ErrNotRunning says that no service answers on this machine.
var ErrNotRunning = errors.New("the service is not running: start it with `pinta-agent service start`")

func controlAddress(l settings.Layout) string {
	if runtime.GOOS == "windows" {
		return l.Endpoint + "-control"
	}
	return strings.TrimSuffix(l.Endpoint, filepath.Ext(l.Endpoint)) + "-control.sock"
}

func (d *Daemon) listenControl() (net.Listener, error) {
	l, err := serve.Listen(controlAddress(d.layout), serve.Options{})
	if err != nil {
		return nil, fmt.Errorf("listen for commands: %w", err)
	}
	return l, nil
}

func (d *Daemon) serveControl(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { reply(w, d.Status()) })
	mux.HandleFunc("GET /logs", func(w http.ResponseWriter, _ *http.Request) { reply(w, d.o.Recent()) })
	mux.HandleFunc("POST /sync", func(w http.ResponseWriter, r *http.Request) {
		if err := d.device.SyncOnce(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		reply(w, d.device.Status())
	})
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		d.reload()
		if err := d.device.SyncOnce(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		reply(w, d.device.Status())
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve commands: %w", err)
	}
	return nil
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the command may have gone
}

const controlTime = 40 * time.Second

// Ask sends a command to the running service and decodes its answer.
// Error: ErrNotRunning.
func Ask(ctx context.Context, l settings.Layout, method, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	target, ok := local.ParseURL(local.URL(controlAddress(l), path))
	if !ok {
		return fmt.Errorf("control address %s is not usable", controlAddress(l))
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			c, err := dial(target, time.Now().Add(controlTime))
			if err != nil {
				return nil, ErrNotRunning
			}
			return c, nil
		}}}
	r, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		if errors.Is(err, ErrNotRunning) {
			return ErrNotRunning
		}
		return fmt.Errorf("ask the service: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		var text [1000]byte
		n, _ := response.Body.Read(text[:])
		return errors.New(strings.TrimSpace(string(text[:n])))
	}
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("read the service's answer: %w", err)
	}
	return nil
}
