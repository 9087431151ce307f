package main

import (
	"os"
	"path/filepath"
)

// payloadDirs hold the recorded payloads of each version: what the hook's own
// tests read, and what the radar added. The latter comes second and wins.
func (r radar) payloadDirs() [2]string {
	return [2]string{filepath.Join(r.checkout, "hook", "testdata", "fixtures"), filepath.Join(r.resultDir(), "payloads")}
}

// recorded are the payloads of a version, or of the nearest one below that has
// any.
func (r radar) recorded(version string) (map[string][]byte, error) {
	nearest := ""
	for _, parent := range r.payloadDirs() {
		dirs, _ := os.ReadDir(parent) // there need not be any
		for _, d := range dirs {
			if v := d.Name(); isVersion(v) && compareVersions(v, version) <= 0 && (nearest == "" || compareVersions(v, nearest) > 0) {
				nearest = v
			}
		}
	}
	return r.payloadsOf(nearest)
}

// payloadsOf are what is recorded of one version.
func (r radar) payloadsOf(version string) (map[string][]byte, error) {
	all := map[string][]byte{}
	for _, parent := range r.payloadDirs() {
		files, err := filepath.Glob(filepath.Join(parent, version, "*.json"))
		if err != nil || version == "" {
			return all, err
		}
		for _, file := range files {
			if all[filepath.Base(file)], err = os.ReadFile(file); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// savePayloads records what differs from what is recorded of the version.
func (r radar) savePayloads(version string, captured map[string][]byte) error {
	own, err := r.payloadsOf(version)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.payloadDirs()[1], version)
	for name, data := range captured {
		if own[name] != nil && len(comparePayloads(map[string][]byte{name: own[name]}, map[string][]byte{name: data})) == 0 {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
