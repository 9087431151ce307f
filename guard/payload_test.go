package guard

import (
	"os"
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
	for name, data := range map[string]string{"empty": "", "text": "rm", "list": "[]", "cut": plain[:40], "two": plain + plain, "no event": `{"a":1}`} {
		if ev, err := EventFromPayload([]byte(data), ""); err == nil {
			t.Errorf("%s: %+v", name, ev)
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

// TestFixtureKeys: a wrong key of a case is named with its line.
func TestFixtureKeys(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"p.yaml": "rules: [{id: a, on: tool_input, action: deny, message: No.}]\n", "p.test.yaml": "cases:\n  - {name: a, command: x, expect: DENY}\n  - {nam: b}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ParsePolicy(dir); err == nil || !strings.Contains(err.Error(), `p.test.yaml:3: unknown key "nam"; known are name, command`) {
		t.Error(err)
	}
}
