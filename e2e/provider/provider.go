// Package provider is a scripted model on loopback for tests and the demo: it
// speaks the OpenAI chat-completions protocol, follows a list of turns, and
// keeps every request, so that a test sees exactly what the model was given.
// It is no model and serves nobody else.
package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// ToolCall is one scripted call of a tool.
type ToolCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// Call makes a ToolCall from arguments of any JSON-able type.
func Call(id, name string, args any) ToolCall {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return ToolCall{ID: id, Name: name, Args: raw}
}

// Turn is one scripted reply: a text, tool calls, or an HTTP error.
type Turn struct {
	Match     string     `json:"match,omitempty"` // only for a request whose body contains this
	Text      string     `json:"text,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	Status    int        `json:"status,omitempty"` // answer with this HTTP error instead
	Repeat    int        `json:"repeat,omitempty"` // how often the turn serves; 0 is once
	// PromptTokens is how large the model says the conversation is; 0 is small.
	// Near the model's limit the client compacts it.
	PromptTokens int `json:"prompt_tokens,omitempty"`
	// Exec runs just before the reply: a change in mid-session. It is a shell
	// command; Do is the same for Go callers.
	Exec string `json:"exec,omitempty"`
	Do   func() `json:"-"`

	used int
}

// Message is one chat message of a recorded request.
type Message struct {
	Role       string          `json:"role"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	Content    json.RawMessage `json:"content"`
}

// Text is the message's content as one string.
func (m Message) Text() string {
	var s string
	if json.Unmarshal(m.Content, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return string(m.Content)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Request is one recorded request of the client.
type Request struct {
	Path     string
	Body     []byte
	Messages []Message
	Tools    int
}

// Server is a running scripted model.
type Server struct {
	mu       sync.Mutex
	turns    []Turn
	requests []Request
	http     *http.Server
	url      string
}

// Start serves turns on a free port of 127.0.0.1.
func Start(turns []Turn) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the scripted model: %w", err)
	}
	s := &Server{turns: slices.Clone(turns), url: "http://" + l.Addr().String() + "/v1"}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	go s.http.Serve(l)
	return s, nil
}

// URL is the base address to hand to the client.
func (s *Server) URL() string { return s.url }

// Close stops the server and its connections.
func (s *Server) Close() { s.http.Close() }

// Requests returns what the model was asked so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ToolResult returns the text that the model was given for a tool call, from
// the last request that holds it.
func (s *Server) ToolResult(callID string) (string, bool) {
	for _, r := range slices.Backward(s.Requests()) {
		for _, m := range r.Messages {
			if m.Role == "tool" && m.ToolCallID == callID {
				return m.Text(), true
			}
		}
	}
	return "", false
}

// Unused is how many turns of the script were never served.
func (s *Server) Unused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i := range s.turns {
		if s.turns[i].used == 0 {
			n++
		}
	}
	return n
}

// ServeHTTP answers /models and /chat/completions, plain or streaming.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/models") {
		writeJSON(w, map[string]any{"object": "list", "data": []any{
			map[string]any{"id": "scripted-model", "object": "model", "created": 0, "owned_by": "test"}}})
		return
	}
	var request struct {
		Model    string            `json:"model"`
		Stream   bool              `json:"stream"`
		Tools    []json.RawMessage `json:"tools"`
		Messages []Message         `json:"messages"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	turn, number := s.take(Request{Path: r.URL.Path, Body: body, Messages: request.Messages, Tools: len(request.Tools)})
	if turn.Do != nil {
		turn.Do()
	}
	if turn.Exec != "" {
		ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
		defer cancel()
		if out, err := exec.CommandContext(ctx, "/bin/sh", "-c", turn.Exec).CombinedOutput(); err != nil {
			http.Error(w, fmt.Sprintf("scripted command: %v: %s", err, out), http.StatusInternalServerError)
			return
		}
	}
	if turn.Status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(turn.Status)
		fmt.Fprintf(w, `{"error":{"message":"scripted error %d","type":"server_error"}}`, turn.Status)
		return
	}
	reply(w, request.Model, request.Stream, turn, number)
}

// take records a request and chooses its turn. Side requests of the client
// (titles, summaries) offer no tools and never use up an unmatched turn.
func (s *Server) take(r Request) (Turn, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
	number := len(s.requests)
	for i := range s.turns {
		t := &s.turns[i]
		if t.used >= max(t.Repeat, 1) ||
			t.Match != "" && !strings.Contains(string(r.Body), t.Match) ||
			t.Match == "" && r.Tools == 0 {
			continue
		}
		t.used++
		chosen := *t
		chosen.ToolCalls = slices.Clone(t.ToolCalls)
		for j := range chosen.ToolCalls {
			if chosen.ToolCalls[j].ID == "" {
				chosen.ToolCalls[j].ID = fmt.Sprintf("call_%03d_%d", number, j)
			}
		}
		return chosen, number
	}
	return Turn{Text: "The script is over."}, number
}

func reply(w http.ResponseWriter, model string, stream bool, t Turn, number int) {
	finish := "stop"
	calls := []any{}
	for i, c := range t.ToolCalls {
		finish = "tool_calls"
		calls = append(calls, map[string]any{"index": i, "id": c.ID, "type": "function",
			"function": map[string]any{"name": c.Name, "arguments": string(c.Args)}})
	}
	tokens := t.PromptTokens
	if tokens == 0 {
		tokens = 1000
	}
	usage := map[string]any{"prompt_tokens": tokens, "completion_tokens": 10, "total_tokens": tokens + 10}
	envelope := func(object string, choices []any) map[string]any {
		return map[string]any{"id": fmt.Sprintf("chatcmpl-%d", number), "object": object,
			"created": time.Now().Unix(), "model": model, "choices": choices}
	}
	if !stream {
		message := map[string]any{"role": "assistant", "content": t.Text}
		if len(calls) > 0 {
			message["tool_calls"] = calls
		}
		whole := envelope("chat.completion", []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}})
		whole["usage"] = usage
		writeJSON(w, whole)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(v map[string]any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(w, "data: %s\n\n", b)
	}
	delta := func(d map[string]any, finish any) {
		send(envelope("chat.completion.chunk", []any{map[string]any{"index": 0, "delta": d, "finish_reason": finish}}))
	}
	delta(map[string]any{"role": "assistant", "content": t.Text}, nil)
	for _, c := range calls {
		delta(map[string]any{"tool_calls": []any{c}}, nil)
	}
	delta(map[string]any{}, finish)
	last := envelope("chat.completion.chunk", []any{})
	last["usage"] = usage
	send(last)
	io.WriteString(w, "data: [DONE]\n\n")
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
