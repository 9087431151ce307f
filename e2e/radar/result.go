package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Result is what was found of one version.
type Result struct {
	Version string `json:"version"`
	// Scenarios are the outcomes of e2e/copilot by key, such as "deny.shell".
	Scenarios map[string]string `json:"scenarios"`
	// Failed names the scenarios that did not do what they must.
	Failed []string `json:"failed,omitempty"`
	// Host is what the CLI makes of a hook's end, time and output, by
	// "event/case".
	Host map[string]string `json:"host"`
}

func (r radar) resultDir() string { return filepath.Join(r.checkout, "e2e", "radar", "testdata") }

// results reads what is recorded, oldest version first.
func (r radar) results() ([]Result, error) {
	files, err := filepath.Glob(filepath.Join(r.resultDir(), "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Result
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var one Result
		if err := json.Unmarshal(data, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Result) int { return compareVersions(a.Version, b.Version) })
	return all, nil
}

func (r radar) save(result Result) error {
	data, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.resultDir(), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.resultDir(), result.Version+".json"), append(data, '\n'), 0o644)
}

// baseline is what a version is compared with: its own record, else that of the
// nearest version below, else nothing.
func baseline(all []Result, version string) (base Result, known bool) {
	for _, r := range all {
		if compareVersions(r.Version, version) <= 0 {
			base = r
		}
	}
	return base, base.Version == version
}

func isVersion(v string) bool {
	parts := strings.Split(v, ".")
	for _, p := range parts {
		if _, err := strconv.Atoi(strings.SplitN(p, "-", 2)[0]); err != nil {
			return false
		}
	}
	return len(parts) == 3 && !strings.ContainsAny(v, `/\ `)
}

// compareVersions orders dotted versions; one with a suffix ("1.0.79-6") comes
// before the plain one, as npm orders them.
func compareVersions(a, b string) int {
	fields := func(v string) (n []int) {
		plain, suffix, early := strings.Cut(v, "-")
		for p := range strings.SplitSeq(plain, ".") {
			i, _ := strconv.Atoi(p)
			n = append(n, i)
		}
		if !early {
			return append(n, math.MaxInt)
		}
		i, _ := strconv.Atoi(suffix)
		return append(n, i)
	}
	return slices.Compare(fields(a), fields(b))
}
