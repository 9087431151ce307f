package users

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// TestLinuxAccounts: accounts of the file, and those that only NSS knows,
// found by the folders that they own.
func TestLinuxAccounts(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(root, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("etc/login.defs", "UID_MIN 1000\n")
	put("etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\nbob:x:1001:1001::/srv/homes/bob:/bin/sh\n")
	for _, d := range []string{"home/alice", "home/ldap", "srv/homes/bob", "run/user/70001", "run/user/1000", "run/user/x"} {
		os.MkdirAll(filepath.Join(root, d), 0o755)
	}
	want := []int{70001}
	if os.Geteuid() == 0 {
		os.Chown(filepath.Join(root, "home/ldap"), 70000, 70000)
		want = []int{70000, 70001}
	}
	var asked []int
	got, err := linuxAccounts(context.Background(), root, func(_ context.Context, uids []int) []passwdEntry {
		asked = uids
		return parsePasswd([]byte("ldap:*:70000:70000::/home/ldap:/bin/bash\nsession:*:70001:70001::/home/session:/bin/zsh\nservice:*:70002:1::/home/s:/sbin/nologin\n"))
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(asked)
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("asked NSS for %v, want %v", asked, want)
	}
	var names []string
	for _, a := range got {
		names = append(names, a.Name)
	}
	if !reflect.DeepEqual(names, []string{"alice", "bob", "ldap", "root", "session"}) {
		t.Errorf("%v", names)
	}
}

// TestGetent asks the real one, if the machine has it.
func TestGetent(t *testing.T) {
	if _, err := os.Stat(getent); err != nil {
		t.Skip("no getent on this machine: accounts of NSS can't be asked for")
	}
	got := nssByUID(t.Context(), []int{0, 987654})
	if len(got) != 1 || got[0].Name != "root" {
		t.Errorf("%+v", got)
	}
}
