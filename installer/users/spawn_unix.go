//go:build unix

package users

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// start starts a worker as the account: numbers and groups are set between
// fork and exec, the environment is empty but for the home, and the program is
// the image that runs now, whatever has become of its path.
func (s Spawner) start(ctx context.Context, a Account) (*process, error) {
	if a.UID < 0 || a.GID < 0 {
		return nil, fmt.Errorf("account %s has no number", a.Name)
	}
	groups, err := groupsOf(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("groups of %s: %w", a.Name, err)
	}
	program, args := s.Program, s.Args
	if program == "" {
		if program, err = runningImage(); err != nil {
			return nil, err
		}
	}
	if args == nil {
		args = []string{"worker"}
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"HOME=" + a.Home}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	dieWithParent(cmd.SysProcAttr)
	if os.Geteuid() == 0 {
		cred := &syscall.Credential{Uid: uint32(a.UID), Gid: uint32(a.GID)}
		for _, g := range groups {
			cred.Groups = append(cred.Groups, uint32(g))
		}
		cmd.SysProcAttr.Credential = cred
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, w, err := os.Pipe() // not StdoutPipe: Wait would close it under the reader
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	// The kernel's "parent" is the thread that forks: it is kept until the
	// worker has ended.
	started, ended := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // what it answered counts, not how it ended
			close(ended)
		}
	}()
	err = <-started
	w.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // gone already: well then
	return &process{in, out, kill, func() { <-ended }}, nil
}
