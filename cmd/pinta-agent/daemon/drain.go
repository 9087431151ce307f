package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/pinta-ai/pinta-agent/hook/queue"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/installer/users"
	"github.com/pinta-ai/pinta-agent/internal/local"
)

// A hook that finds no relay queues its span in its user's home, and the next
// run delivers it. A user who starts no more runs would keep the backlog, so
// the service has it drained now and then: by a worker that runs as the user
// and posts to the relay's own socket, where the kernel vouches for it as for
// any hook.

// DrainVerb is the worker's argument for this.
const DrainVerb = "drain"

const (
	drainEvery = time.Minute
	drainTime  = 10 * time.Second
)

// drainRequest is what a draining worker is told.
type drainRequest struct {
	Dirs []string `json:"dirs"` // data folders of the user's Copilot homes
	URL  string   `json:"url"`  // the relay
}

// drained is what it answers.
type drained struct {
	Sent  int    `json:"sent"`
	Error string `json:"error,omitempty"`
}

func (d *Daemon) drainQueues(ctx context.Context) {
	select {
	case <-d.parent.Started():
	case <-ctx.Done():
		return
	}
	all := time.NewTimer(0) // everybody's first: what waited while no service ran
	defer all.Stop()
	for {
		user := ""
		select {
		case <-ctx.Done():
			return
		case <-all.C:
		case user = <-d.denied:
		}
		start := time.Now()
		accounts, err := installer.Accounts(ctx, d.layout)
		if err != nil {
			d.o.Log.Debug("list users to drain queues", "error", err)
		}
		for _, account := range accounts {
			if user == "" || user == account.Name {
				d.drain(ctx, account)
			}
		}
		if user == "" { // with many users, each of whom needs a process, it takes a tenth of the time
			all.Reset(max(drainEvery, 10*time.Since(start)))
		}
	}
}

// noteDenied asks for the queues of users who had denials since before.
func (d *Daemon) noteDenied(before, now map[string]uint64) {
	for user, n := range now {
		if n == before[user] {
			continue
		}
		select {
		case d.denied <- user:
		default: // the next full round finds it
		}
	}
}

func (d *Daemon) drain(ctx context.Context, account users.Account) {
	request := drainRequest{URL: d.layout.TracesURL(), Dirs: []string{filepath.Join(account.Home, ".copilot", dataDir)}}
	if account.CopilotHome != "" {
		request.Dirs = append(request.Dirs, filepath.Join(account.CopilotHome, dataDir))
	}
	var answer drained
	if account.InProcess() {
		answer = drainHere(request)
	} else {
		line, err := users.Spawner{Args: []string{"worker", DrainVerb}}.Run(ctx, account, request)
		if err != nil {
			d.o.Log.Debug("drain a queue", "user", account.Name, "error", err)
			return
		}
		if err := json.Unmarshal(line, &answer); err != nil {
			d.o.Log.Debug("a drain's answer", "user", account.Name, "error", err)
			return
		}
	}
	if answer.Sent > 0 {
		d.o.Log.Info("delivered a hook's backlog", "user", account.Name, "spans", answer.Sent)
	}
	if answer.Error != "" {
		d.o.Log.Debug("drain a queue", "user", account.Name, "error", users.Clean(answer.Error))
	}
}

const dataDir = "pinta-copilot-data"

// RunDrain is the worker's side.
func RunDrain(stdin io.Reader, stdout io.Writer) int {
	return users.Serve(stdin, stdout, func(_ context.Context, raw []byte, _ func(any) error) (any, error) {
		var request drainRequest
		if err := json.Unmarshal(raw, &request); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		return drainHere(request), nil
	})
}

func drainHere(request drainRequest) (answer drained) {
	client, err := localClient(request.URL)
	if err != nil {
		return drained{Error: err.Error()}
	}
	now := time.Now()
	for _, dir := range request.Dirs {
		stats, err := queue.Flush(dir, now, now.Add(drainTime), func(body []byte) (queue.Outcome, error) {
			return post(client, body)
		})
		answer.Sent += stats.Delivered
		if err != nil {
			answer.Error = err.Error()
		}
	}
	return answer
}

// localClient posts to the relay's socket or pipe and nowhere else.
func localClient(url string) (*http.Client, error) {
	target, ok := local.ParseURL(url)
	if !ok {
		return nil, errors.New("the relay's address is no socket or pipe")
	}
	return &http.Client{Timeout: drainTime, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return dial(target, time.Now().Add(drainTime))
		}}}, nil
}

func post(client *http.Client, body []byte) (queue.Outcome, error) {
	response, err := client.Post("http://agent/v1/traces", "application/json", bytes.NewReader(body))
	if err != nil {
		return queue.Keep, err
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) //nolint:errcheck // the status counts
	switch {
	case response.StatusCode < 300:
		return queue.Delivered, nil
	case response.StatusCode == http.StatusBadRequest, response.StatusCode == http.StatusRequestEntityTooLarge,
		response.StatusCode == http.StatusUnsupportedMediaType, response.StatusCode == http.StatusUnprocessableEntity:
		return queue.Refused, fmt.Errorf("the relay refuses a queued span: %s", response.Status)
	}
	return queue.Keep, fmt.Errorf("the relay answers %s", response.Status)
}
