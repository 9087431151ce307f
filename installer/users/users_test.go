package users

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestInteractiveAccounts(t *testing.T) {
	const passwd = `root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
sync:x:4:65534:sync:/bin:/bin/sync
games:x:5:60:games:/usr/games:/bin/sh
alice:x:1000:1000:Alice,,,:/home/alice:/bin/bash
bob:x:1001:100::/home/bob/:/usr/bin/fish
noshell:x:1002:1002::/home/noshell:
nologin:x:1003:1003::/home/nologin:/sbin/nologin
false:x:1004:1004::/home/false:/bin/false
relative:x:1005:1005::home/x:/bin/sh
rooted:x:1006:1006::/:/bin/sh
gone:x:1007:1007::/nonexistent:/bin/sh
nobody:x:65534:65534:nobody:/home/nobody:/bin/sh
domain:x:1234567890:1234567890::/home/domain:/bin/bash
+@nis::::::
#comment:x:1:1:::
short:x:1008
-dash:x:1009:1009::/home/dash:/bin/sh
huge:x:99999999999999999999:1::/home/huge:/bin/sh
`
	var got []string
	for _, e := range parsePasswd([]byte(passwd)) {
		if e.interactive(1000) {
			got = append(got, fmt.Sprintf("%s %d %d %s", e.Name, e.UID, e.GID, e.Home))
		}
	}
	want := []string{"root 0 0 /root", "alice 1000 1000 /home/alice", "bob 1001 100 /home/bob", "noshell 1002 1002 /home/noshell", "domain 1234567890 1234567890 /home/domain"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestGroups(t *testing.T) {
	const group = "root:x:0:\nwheel:x:10:alice,bob\ndocker:x:999:bob\nbad:x:y:alice\nlike:x:5:alic\nshort\n"
	if got := parseGroups([]byte(group), "alice"); !reflect.DeepEqual(got, []int{10}) {
		t.Errorf("alice: %v", got)
	}
	if got := parseGroups([]byte(group), "bob"); !reflect.DeepEqual(got, []int{10, 999}) {
		t.Errorf("bob: %v", got)
	}
}

func TestLoginDefs(t *testing.T) {
	for in, want := range map[string]int{"": 1000, "# UID_MIN 7\nUID_MIN\t\t500\n": 500, "UID_MIN x\n": 1000, "UID_MIN -3": 1000, "SYS_UID_MIN 100\n": 1000} {
		if got := loginDefs([]byte(in)); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

func TestDscl(t *testing.T) {
	const out = `NFSHomeDirectory: /var/empty
PrimaryGroupID: 4294967294
RecordName: nobody
UniqueID: 4294967294
UserShell: /usr/bin/false
-
NFSHomeDirectory: /Users/alice
PrimaryGroupID: 20
RecordName: alice alice@example.com
UniqueID: 501
UserShell: /bin/zsh
-
NFSHomeDirectory:
 /Users/Bob Demo
PrimaryGroupID: 20
RecordName: bob
UniqueID: 502
UserShell: /bin/bash
-
NFSHomeDirectory: /var/root /private/var/root
PrimaryGroupID: 0
RecordName: root
UniqueID: 0
UserShell: /bin/sh
-
NFSHomeDirectory: /Users/_svc
PrimaryGroupID: 20
RecordName: _svc
UniqueID: 503
UserShell: /bin/bash
-
broken
`
	var got []string
	for _, a := range dsclAccounts([]byte(out)) {
		got = append(got, fmt.Sprintf("%s %d %d %s", a.Name, a.UID, a.GID, a.Home))
	}
	want := []string{"alice 501 20 /Users/alice", "bob 502 20 /Users/Bob Demo", "root 0 0 /var/root"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestBelow(t *testing.T) {
	dir := t.TempDir()
	if got, err := Below(filepath.Join(dir, "none")).Accounts(t.Context()); len(got) != 0 || err != nil {
		t.Errorf("without homes: %v, %v", got, err)
	}
	for _, n := range []string{"b", "a", "데모 (x)"} {
		if err := os.Mkdir(filepath.Join(dir, n), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)
	os.Symlink("a", filepath.Join(dir, "link"))
	got, err := Below(dir).Accounts(t.Context())
	if err != nil || len(got) != 3 || got[0].Name != "a" || got[0].UID != os.Getuid() || got[2].Home != filepath.Join(dir, "데모 (x)") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTooMany(t *testing.T) {
	many := make([]Account, Max+1)
	for i := range many {
		many[i].Name = fmt.Sprintf("u%05d", i)
	}
	got, err := bounded(many)
	if len(got) != Max || !errors.Is(err, ErrTooMany) {
		t.Errorf("%d, %v", len(got), err)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a\nb\x1b[31mred": "a b [31mred", "\u202Ereversed\u2066": " reversed ", "\u0085": " ", "데모": "데모", "bad \xff": "bad \ufffd",
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := []rune(Clean(string(make([]byte, 10_000)))); len(got) != 501 {
		t.Errorf("%d characters", len(got))
	}
}

func FuzzDatabases(f *testing.F) {
	f.Add([]byte("a:x:1000:1000::/home/a:/bin/sh\n"))
	f.Add([]byte("RecordName: a\nUniqueID: 501\nPrimaryGroupID: 20\nNFSHomeDirectory: /Users/a\nUserShell: /bin/sh\n-\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, e := range parsePasswd(b) {
			if e.interactive(1000) && (e.UID < 0 || !filepath.IsAbs(e.Home) || e.Name == "") {
				t.Errorf("%+v", e)
			}
		}
		parseGroups(b, "a")
		dsclAccounts(b)
		loginDefs(b)
	})
}
