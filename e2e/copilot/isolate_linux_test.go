package copilot_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinta-ai/pinta-agent/e2e/copilot"
)

// isolatedEnv marks the process in the copy of the machine and names its
// folder of private mounts.
const isolatedEnv = "PINTA_E2E_ISOLATED"

// isolated runs this very test once more as root in a private copy of the
// machine with no network but loopback: what it installs at the real paths
// (/etc, /usr, /var, /run, homes) is gone afterwards. It returns true inside.
func isolated(t *testing.T) bool {
	t.Helper()
	if dir := os.Getenv(isolatedEnv); dir != "" {
		if err := enter(dir); err != nil {
			t.Fatalf("can't isolate: %v", err)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to install into a private copy of the machine")
	}
	dir := t.TempDir()
	built := site(t).Programs // before the network is gone
	results := filepath.Join(dir, "results.json")
	deadline := 10 * time.Minute
	if d, ok := t.Deadline(); ok {
		deadline = time.Until(d) - 10*time.Second
	}
	// The main thread forks into the namespaces, so that they hold for all of the child.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+deadline.String())
	cmd.Env = append(os.Environ(), isolatedEnv+"="+dir, programsEnv+"="+filepath.Dir(built.Agent), resultsEnv+"="+results, "TMPDIR="+dir)
	cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "can't isolate") || err != nil && len(out) == 0 {
		message := fmt.Sprintf("no private copy of the machine can be made here: %v\n%s", err, out)
		if os.Getenv("PINTA_E2E") == "require" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	t.Logf("inside the private copy of the machine:\n%s", out)
	if err != nil || bytes.Contains(out, []byte("--- FAIL")) {
		t.Errorf("inside: %v", err)
	}
	var all map[string]string
	if data, err := os.ReadFile(results); err == nil && json.Unmarshal(data, &all) == nil {
		noteAll(t, all)
	}
	return false
}

// unpacked is the CLI's cache inside.
const unpacked = "/var/cache/copilot-cli"

// enter puts private layers over the folders that an installation changes, and
// brings loopback up.
func enter(dir string) error {
	runtime.LockOSThread()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	layers := filepath.Join(dir, "layers")
	if err := os.Mkdir(layers, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", layers, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount tmpfs: %w", err)
	}
	lower := copilot.CacheDir()
	for i, over := range []string{"/etc", "/usr", "/var", "/root", "/home", unpacked} {
		upper, work := filepath.Join(layers, fmt.Sprint(i)), filepath.Join(layers, fmt.Sprint(i, ".work"))
		for _, d := range []string{upper, work, over} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return err
			}
		}
		from := over
		if over == unpacked { // what root's runs have unpacked, where a user may read it
			from = lower
		}
		if err := unix.Mount("overlay", over, "overlay", 0, "lowerdir="+from+",upperdir="+upper+",workdir="+work); err != nil {
			return fmt.Errorf("mount an overlay over %s: %w", over, err)
		}
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	return loopback()
}

// loopback brings the interface lo of this network namespace up.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}
