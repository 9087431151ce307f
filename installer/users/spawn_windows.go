package users

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// start starts a worker with the token of one of the user's sessions. Without
// one there is no way to act as the user: the home waits for the next sign-in,
// and the machine's policy hooks hold meanwhile.
func (s Spawner) start(_ context.Context, a Account) (*process, error) {
	token, err := sessionToken(a.SID)
	if err != nil {
		return nil, err
	}
	defer func() { _ = token.Close() }()
	program, args := s.Program, s.Args
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	if args == nil {
		args = []string{"worker"}
	}
	dir, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"SystemRoot=" + dir, "USERPROFILE=" + a.Home}
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Token: syscall.Token(token), HideWindow: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, w, err := os.Pipe() // not StdoutPipe: Wait would close it under the reader
	if err != nil {
		return nil, err
	}
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		out.Close()
		return nil, err
	}
	return &process{in, out, func() { _ = cmd.Process.Kill() }, func() { _ = cmd.Wait() }}, nil
}

func sessionToken(sid string) (windows.Token, error) {
	const all = 1 << 16
	var first *windows.WTS_SESSION_INFO
	var n uint32
	if err := windows.WTSEnumerateSessions(0, 0, 1, &first, &n); err != nil {
		return 0, fmt.Errorf("list sessions: %w", err)
	}
	defer windows.WTSFreeMemory(uintptr(ptr(first)))
	for _, session := range sessions(first, min(n, all)) {
		var t windows.Token
		if windows.WTSQueryUserToken(session.SessionID, &t) != nil {
			continue
		}
		if u, err := t.GetTokenUser(); err == nil && u.User.Sid.String() == sid {
			return t, nil
		}
		_ = t.Close()
	}
	return 0, ErrNotSignedIn
}
