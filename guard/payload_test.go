package guard

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// TestPayloadFiles: an event is read from a file as editors and shells write it,
// and what is no event says so.
func TestPayloadFiles(t *testing.T) {
	plain := payload(t, "Bash", map[string]any{"command": "rm -rf /srv/\u00e9"}, nil)
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(plain)) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	for name, data := range map[string]string{
		"plain": plain, "BOM": "\xef\xbb\xbf" + plain, "line ends": "\r\n" + strings.ReplaceAll(plain, ",", ",\r\n") + "\r\n", "UTF-16": string(wide), "NUL at the end": plain + "\x00",
	} {
		ev, err := EventFromPayload([]byte(data), "")
		if err != nil || ev.Text != "rm -rf /srv/\u00e9" {
			t.Errorf("%s: %+v %v", name, ev, err)
		}
	}
	for data, want := range map[string]string{
		"": "(at byte 0)", "rm": "(at byte 1)", "[]": "no JSON object", plain[:40]: "(at byte 40)", plain + plain: fmt.Sprintf("(at byte %d)", len(plain)+1), `{"a":1}`: "no name and no tool",
	} {
		if ev, err := EventFromPayload([]byte(data), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %s", data, ev, err, want)
		}
	}
}

// TestUnknownEvaluations: a record that may not be read isn't one that is forgotten.
func TestUnknownEvaluations(t *testing.T) {
	dir := t.TempDir()
	if _, err := FindEvaluation(filepath.Join(dir, "none"), "01J"); err == nil || !strings.Contains(err.Error(), "not remembered") {
		t.Error(err)
	}
	if _, err := FindEvaluation(dir, "01J"); err == nil || !strings.Contains(err.Error(), "administrator") {
		t.Error(err)
	}
}

// TestFixtureFaults: what is wrong with a file of cases is said in its own words,
// with its line.
func TestFixtureFaults(t *testing.T) {
	for text, want := range map[string]string{
		"cases:\n  - {name: a, command: x, expect: DENY}\n  - {nam: b}\n": `p.test.yaml:3: unknown key "nam"; known are name, command`,
		"- {name: a, command: x, expect: DENY}\n":                         "p.test.yaml: has to be a mapping with cases, a list",
		"cases:\n  - {name: a, tool: bash, input: [x], expect: DENY}\n":   "p.test.yaml:2: input has to be a mapping",
		"cases:\n  - {name: a, command: [x], expect: DENY}\n":             "p.test.yaml:2: command has to be text",
	} {
		if _, err := parseFixtures("p.test.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s%v, want %s", text, err, want)
		}
	}
}
