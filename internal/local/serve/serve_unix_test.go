//go:build linux || darwin

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ask(t *testing.T, path string) string {
	t.Helper()
	tr := &http.Transport{DialContext: func(context.Context, string, string) (c net.Conn, err error) {
		d, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer d.Close()
		err = shortPath(d, filepath.Dir(path), filepath.Base(path), func(s string) (err error) {
			c, err = net.Dial("unix", s)
			return err
		})
		return c, err
	}}
	defer tr.CloseIdleConnections()
	r, err := (&http.Client{Transport: tr}).Get("http://agent/")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	return string(b)
}

func serveHTTP(t *testing.T, l net.Listener) {
	s := &http.Server{ConnContext: ConnContext, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := PeerFrom(r.Context())
		fmt.Fprintf(w, "%v uid=%d pid=%d", ok, p.UID, p.PID)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close(); <-done })
}

func TestPeerIsTheKernelsView(t *testing.T) {
	for name, dir := range map[string]string{
		"short path": filepath.Join(t.TempDir(), "run"),
		"long path":  filepath.Join(t.TempDir(), strings.Repeat("d", 120), "run"),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "agent.sock")
			l, err := Listen(path, Options{Everyone: true})
			if err != nil {
				t.Fatal(err)
			}
			if l.Addr().String() != path {
				t.Errorf("address %s", l.Addr())
			}
			serveHTTP(t, l)
			if got, want := ask(t, path), fmt.Sprintf("true uid=%d pid=%d", os.Getuid(), os.Getpid()); got != want {
				t.Errorf("peer %q, want %q", got, want)
			}
			if _, err := Listen(path, Options{Everyone: true}); !errors.Is(err, ErrInUse) {
				t.Errorf("a second service got %v", err)
			}
			left, _ := os.ReadDir(dir)
			if len(left) != 1 {
				t.Errorf("left in the folder: %v", left)
			}
		})
	}
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		name         string
		o            Options
		folder, sock os.FileMode
	}{
		{"system", Options{Everyone: true}, 0o755, 0o666},
		{"user", Options{}, 0o700, 0o600},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			l, err := Listen(filepath.Join(dir, "s"), c.o)
			if err != nil {
				t.Fatal(err)
			}
			d, _ := os.Stat(dir)
			s, _ := os.Lstat(filepath.Join(dir, "s"))
			if d.Mode().Perm() != c.folder || s.Mode().Perm() != c.sock {
				t.Errorf("folder %v socket %v", d.Mode(), s.Mode())
			}
			l.Close()
			if _, err := os.Lstat(filepath.Join(dir, "s")); !os.IsNotExist(err) {
				t.Errorf("the socket stayed: %v", err)
			}
		})
	}
}

func TestDeadSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	old.Close()
	l, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	serveHTTP(t, l)
	if got := ask(t, path); !strings.HasPrefix(got, "true") {
		t.Error(got)
	}
}

func TestClosingLeavesASuccessorsSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(path)
	next, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Error("the successor's socket was removed")
	}
	next.Close()
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		prep func(t *testing.T, dir string) string
		want string
	}{
		{"folder writable by others", func(t *testing.T, d string) string { os.Chmod(d, 0o777); return filepath.Join(d, "s") }, "written by others"},
		{"folder is a link", func(t *testing.T, d string) string {
			os.Symlink(d, d+".link")
			return filepath.Join(d+".link", "s")
		}, "folder"},
		{"something else has the name", func(t *testing.T, d string) string {
			os.WriteFile(filepath.Join(d, "s"), nil, 0o600)
			return filepath.Join(d, "s")
		}, "no socket"},
		{"relative", func(t *testing.T, d string) string { return "s" }, "not absolute"},
		{"no parent", func(t *testing.T, d string) string { return filepath.Join(d, "a", "b", "s") }, "folder"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Listen(c.prep(t, t.TempDir()), Options{})
			if err == nil {
				l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestHandedOverListener(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := File(l)
	if err != nil {
		t.Fatal(err)
	}
	child, err := Inherit(f)
	if err != nil {
		t.Fatal(err)
	}
	serveHTTP(t, child)
	if got := ask(t, path); !strings.HasPrefix(got, "true") {
		t.Error(got)
	}
}

func TestNoPeerBeyondLocalSockets(t *testing.T) {
	if _, ok := PeerFrom(context.Background()); ok {
		t.Error("a peer from nowhere")
	}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if _, ok := PeerFrom(ConnContext(context.Background(), a)); ok {
		t.Error("a peer of a pipe within the process")
	}
	if p, ok := PeerFrom(WithPeer(context.Background(), Peer{UID: 7})); !ok || p.UID != 7 {
		t.Error("a peer that was given is gone")
	}
}
