package daemon

import (
	"bytes"
	"testing"

	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/installer/users"
)

func TestRelayTokens(t *testing.T) {
	dir := t.TempDir()
	state, err := enroll.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := relayKey(state)
	if err != nil || len(key) != 32 {
		t.Fatalf("key of %d bytes, %v", len(key), err)
	}
	if state, err = enroll.Open(dir); err != nil {
		t.Fatal(err)
	}
	if again, err := relayKey(state); err != nil || !bytes.Equal(again, key) {
		t.Errorf("after a restart the key is another one (%v)", err)
	}
	other := bytes.Clone(key)
	other[0] ^= 1
	seen := map[string]string{}
	for name, token := range map[string]string{
		"dev":             relayToken(key, users.Account{Name: "dev", UID: 1000}).Reveal(),
		"same name":       relayToken(key, users.Account{Name: "dev", UID: 1001}).Reveal(),
		"same number":     relayToken(key, users.Account{Name: "eve", UID: 1000}).Reveal(),
		"digit in name":   relayToken(key, users.Account{Name: "dev1", UID: 0}).Reveal(),
		"digit in number": relayToken(key, users.Account{Name: "dev", UID: 10}).Reveal(),
		"by SID":          relayToken(key, users.Account{Name: "dev", UID: -1, SID: "S-1-5-21-1"}).Reveal(),
		"other SID":       relayToken(key, users.Account{Name: "dev", UID: -1, SID: "S-1-5-21-2"}).Reveal(),
		"other machine":   relayToken(other, users.Account{Name: "dev", UID: 1000}).Reveal(),
	} {
		if before, taken := seen[token]; taken || len(token) != 43 {
			t.Errorf("%s has the token of %s, or no whole one: %q", name, before, token)
		}
		seen[token] = name
	}
}
