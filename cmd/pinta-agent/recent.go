package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/daemon"
	"github.com/pinta-ai/pinta-agent/hook/redact"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// maxRecent bounds what is kept and passed on of the log, in bytes.
const maxRecent = 256 << 10

// recentLog passes the service's log on and keeps the end of it, so that
// diagnostics have it wherever the system's own log is.
type recentLog struct {
	to io.Writer

	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (l *recentLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, p[max(0, len(p)-maxRecent):]...)
	if over := len(l.kept) - maxRecent; over > maxRecent/4 {
		l.kept = append([]byte(nil), l.kept[over:]...)
	}
	return l.to.Write(p)
}

// Lines are the last records, oldest first.
func (l *recentLog) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return linesOf(l.kept)
}

// linesOf are the whole lines at the end of a log.
func linesOf(data []byte) []string {
	if over := len(data) - maxRecent; over > 0 {
		_, data, _ = bytes.Cut(data[over:], []byte("\n"))
	}
	if len(data) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// logs is the part of a diagnostics bundle with the service's last records.
type logs struct {
	Source  string   `json:"source"` // where they were found
	LeftOut int      `json:"leftOut"`
	Records []string `json:"records"`
}

// recentLogs asks the running service, or reads what its service manager keeps.
func (a *app) recentLogs(ctx context.Context) (logs, error) {
	var lines []string
	err := daemon.Ask(ctx, a.layout, http.MethodGet, "/logs", &lines)
	source := "service"
	if errors.Is(err, daemon.ErrNotRunning) && a.layout.Root == "" {
		lines, source, err = systemLogs(ctx, a.layout.System)
	}
	if err != nil {
		return logs{}, err
	}
	out := logs{Source: source, Records: []string{}}
	for _, line := range lines {
		record, ok := maskRecord(line)
		if !ok {
			out.LeftOut++
			continue
		}
		out.Records = append(out.Records, record)
	}
	return out, nil
}

const journal = "/usr/bin/journalctl"

// systemLogs reads the service manager's log of a service that doesn't run.
func systemLogs(ctx context.Context, system bool) (lines []string, source string, err error) {
	switch runtime.GOOS {
	case "darwin":
		if source, err = launchdLog(system); err != nil {
			return nil, "", err
		}
		data, err := tailOf(source)
		return linesOf(data), source, err
	case "linux":
		args := []string{"--unit=" + serviceName, "--lines=2000", "--output=cat", "--no-pager", "--quiet"}
		if !system {
			args[0] = "--user-unit=" + serviceName
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		command := exec.CommandContext(ctx, journal, args...)
		command.Env = []string{"LANG=C.UTF-8"}
		data, err := command.Output()
		return linesOf(data), "journal", err
	}
	return nil, "", errors.New("the service doesn't run, and its service manager keeps no log")
}

// tailOf reads the end of a file.
func tailOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("the log is no regular file")
	}
	return io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-maxRecent-1), maxRecent+1))
}

// shownKeys are the attributes of log records that leave the machine. An
// attribute that isn't listed shows as a mask.
var shownKeys = []string{
	"time", "level", "msg", "part", "error", "err", "again", "answer", "batch", "bytes", "cause", "code", "destination", "detail",
	"device", "endpoint", "failed", "fault", "from", "group", "id", "kind", "lost", "manager", "mode", "object", "ok", "override",
	"path", "reason", "remedy", "restart", "rules", "schema", "segment", "spans", "state", "status", "tool", "user", "version", "wait",
}

var (
	// enrolmentToken is a token, or the beginning of one.
	enrolmentToken = regexp.MustCompile(`pinta_[A-Za-z0-9_]{4,}`)
	// credentials are a URL's user and password, and its query.
	credentials = regexp.MustCompile(`(://)[^/@\s"]+@`)
	query       = regexp.MustCompile(`(https?://[^\s"?]*)\?[^\s"]*`)
	// bearer is what follows the name of a scheme.
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic|negotiate)\s+[^\s"]+`)
)

// maskRecord keeps of a record what the allow-list names, without what looks
// like a secret. What is no record of slog's text form (a panic, a line of a
// child) isn't shown: nobody knows what it holds.
func maskRecord(line string) (string, bool) {
	if !strings.HasPrefix(line, "time=") {
		return "", false
	}
	var out []string
	for rest := line; rest != ""; {
		key, value, next, ok := attribute(rest)
		if !ok {
			return "", false
		}
		rest = next
		switch {
		case !slices.Contains(shownKeys, key):
			value = settings.Mask
			if !plainKey(key) {
				key = "?"
			}
		default:
			value = maskText(value)
		}
		if value == "" || strings.ContainsAny(value, " \"=\t\n") {
			value = strconv.Quote(value)
		}
		out = append(out, key+"="+value)
	}
	return strings.Join(out, " "), true
}

func maskText(s string) string {
	s = enrolmentToken.ReplaceAllString(s, settings.Mask)
	s = credentials.ReplaceAllString(s, "${1}"+settings.Mask+"@")
	s = query.ReplaceAllString(s, "${1}?"+settings.Mask)
	s = bearer.ReplaceAllString(s, "${1} "+settings.Mask)
	return redact.Text(s)
}

func plainKey(key string) bool {
	return len(key) <= 32 && !strings.ContainsFunc(key, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '.' && r != '_' })
}

// attribute takes one key=value from the start of a record; the value may be a
// quoted Go string.
func attribute(s string) (key, value, rest string, ok bool) {
	key, s, ok = strings.Cut(s, "=")
	if !ok || key == "" || strings.ContainsAny(key, " \"") {
		return "", "", "", false
	}
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", "", false
		}
		if value, err = strconv.Unquote(quoted); err != nil {
			return "", "", "", false
		}
		rest = s[len(quoted):]
		if rest != "" && rest[0] != ' ' {
			return "", "", "", false
		}
		return key, value, strings.TrimPrefix(rest, " "), true
	}
	value, rest, _ = strings.Cut(s, " ")
	return key, value, rest, true
}
