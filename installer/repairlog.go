package installer

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// The repair log in the state folder lets status show what happened without
// the service. It keeps the last keepRepairs.
const (
	repairsName = "repairs.jsonl"
	keepRepairs = 256
	maxRepairs  = 1 << 20 // bytes; trimmed beyond half of it
)

// LogRepair appends to the repair log. A log that can't be written loses its
// line and nothing else.
func LogRepair(l settings.Layout, r Repair) {
	line, err := json.Marshal(r)
	path := filepath.Join(l.StateDir, repairsName)
	if err != nil || safefile.Append(path, line, 0o600) != nil {
		return
	}
	data, err := safefile.ReadFile(path, maxRepairs)
	if err == nil && len(data) < maxRepairs/2 {
		return
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	_ = safefile.WriteFile(path, bytes.Join(lines[max(0, len(lines)-keepRepairs):], nil), safefile.Private)
}

// Repairs returns the last repairs, oldest first. Torn lines are passed over.
func Repairs(l settings.Layout) []Repair {
	data, _ := safefile.ReadFile(filepath.Join(l.StateDir, repairsName), maxRepairs)
	var out []Repair
	for line := range bytes.Lines(data) {
		var r Repair
		if json.Unmarshal(line, &r) == nil && !r.At.IsZero() {
			out = append(out, r)
		}
	}
	return out[max(0, len(out)-keepRepairs):]
}
