package guard

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// Memory keeps what the agent remembers of evaluations: rule, categories and a
// masked excerpt. It is bounded; with a path it is also a file of JSON lines,
// from which why answers without the service.
type Memory struct {
	mu   sync.Mutex
	path string
	max  int
	ring []Verdict
	next int
	size int64
}

const (
	memoryEntries = 1000
	memoryBytes   = 1 << 20 // of the file before it is cut to the ring
)

// NewMemory keeps up to limit entries (0: 1 000), in the file path if that is not empty. An
// unreadable file begins anew.
func NewMemory(path string, limit int) *Memory {
	if limit <= 0 {
		limit = memoryEntries
	}
	m := &Memory{path: path, max: limit}
	if path != "" {
		list, _ := readMemory(path)
		for _, v := range list {
			m.put(v)
		}
		if info, err := os.Lstat(path); err == nil {
			m.size = info.Size()
		}
	}
	return m
}

func (m *Memory) put(v Verdict) {
	if len(m.ring) < m.max {
		m.ring = append(m.ring, v)
		return
	}
	m.ring[m.next] = v
	m.next = (m.next + 1) % m.max
}

// Add remembers a verdict. A disk fault costs the file's entry, nothing else.
func (m *Memory) Add(v Verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(v)
	if m.path == "" {
		return
	}
	line, err := json.Marshal(v)
	if err != nil {
		return
	}
	if m.size += int64(len(line)) + 1; m.size <= memoryBytes {
		if safefile.Append(m.path, line, 0o600) == nil {
			return
		}
	}
	var all bytes.Buffer
	for i := range m.ring {
		line, _ := json.Marshal(m.ring[(m.next+i)%len(m.ring)])
		if all.Len()+len(line) > memoryBytes/2 {
			continue
		}
		all.Write(line)
		all.WriteByte('\n')
	}
	m.size = int64(all.Len())
	_ = safefile.WriteFile(m.path, all.Bytes(), safefile.Attr{Perm: 0o600, UID: -1, GID: -1})
}

// Find gives the verdict of an evaluation id, whatever its letter case.
func (m *Memory) Find(id string) (Verdict, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range m.ring {
		if strings.EqualFold(v.EvaluationID, id) {
			return v, true
		}
	}
	return Verdict{}, false
}

// FindEvaluation looks an evaluation up in a memory's file.
func FindEvaluation(path, id string) (Verdict, error) {
	list, err := readMemory(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Verdict{}, fmt.Errorf("read what was evaluated: %w; ask as the administrator, or as the user whose agent it is", err)
	}
	for _, v := range list {
		if strings.EqualFold(v.EvaluationID, id) {
			return v, nil
		}
	}
	return Verdict{}, fmt.Errorf("evaluation %s is not remembered here; only the last %d are, and only on the machine that judged", cut(id, 40), memoryEntries)
}

func readMemory(path string) (list []Verdict, err error) {
	data, err := safefile.ReadFile(path, 2*memoryBytes)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v Verdict
		if json.Unmarshal(lines.Bytes(), &v) == nil && v.EvaluationID != "" {
			list = append(list, v)
		}
	}
	return list, nil
}
