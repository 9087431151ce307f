//go:build unix

package endpoint

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
)

// Descriptors that a child finds open.
const (
	listenerFD = 3
	spoolFD    = 4
)

// Command is the hidden command that a child is started with.
const Command = "endpoint"

// spawn starts the child as the layout's account where this process may become
// it, else as itself. The child gets the listener and the spool's folder as
// descriptors: it could open neither.
func (p *Parent) spawn() (*child, error) {
	program, err := p.program()
	if err != nil {
		return nil, err
	}
	listener, err := serve.File(p.o.Listener)
	if err != nil {
		return nil, fmt.Errorf("hand over the socket: %w", err)
	}
	defer listener.Close()
	spool, err := os.Open(p.o.Setup.SpoolDir)
	if err != nil {
		return nil, fmt.Errorf("hand over the spool: %w", err)
	}
	defer spool.Close()
	command := exec.Command(program, Command)
	command.Env = []string{"GOMEMLIMIT=68MiB", "LANG=C.UTF-8"} // of which 32 MiB are guard.PaceCollector's and never touched
	command.Dir = "/"
	command.Stderr = p.o.Stderr
	command.ExtraFiles = []*os.File{listener, spool}
	command.SysProcAttr = attributes()
	if credential := unprivileged(p.o.Layout.Account); credential != nil {
		if err := own(spool, int(credential.Uid), int(credential.Gid)); err != nil {
			return nil, fmt.Errorf("give the spool to %s: %w", p.o.Layout.Account, err)
		}
		command.SysProcAttr.Credential = credential
	}
	keepOpenFiles()
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the guard and relay process: %w", err)
	}
	return &child{in: in, out: out,
		wait: func() error {
			err := command.Wait()
			if err == nil {
				err = errors.New("it ended by itself")
			}
			return err
		},
		kill: func() { command.Process.Kill() },
	}, nil
}

// keepOpenFiles has children inherit nothing but what they are given: whoever
// started the service may have left something open in it.
func keepOpenFiles() {
	open, _ := os.ReadDir("/dev/fd") // what can't be listed is no worse than before
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// own gives a folder to an account. What lies in one that is still the
// service's own is given along: a child that ran before the account was made
// left it. In one that is the account's already nothing is touched, for there
// the account could put anything in the way.
func own(dir *os.File, uid, gid int) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) == os.Geteuid() {
		names, err := dir.Readdirnames(-1)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := unix.Fchownat(int(dir.Fd()), name, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
	}
	return dir.Chown(uid, gid)
}

// Unprivileged reports whether children run as an account of their own.
func Unprivileged(account string) bool { return unprivileged(account) != nil }

// unprivileged is the account's identity if this process may take it.
func unprivileged(account string) *syscall.Credential {
	if account == "" || os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup(account)
	if err != nil {
		return nil
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil || uid == 0 {
		return nil
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}
}

// Inherited opens what the parent handed over. The child moves into the
// spool's folder, which no path leads it to.
func Inherited() (net.Listener, string, error) {
	listener, err := serve.Inherit(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return nil, "", fmt.Errorf("%q is started by the service only: %w", Command, err)
	}
	if err := syscall.Fchdir(spoolFD); err != nil {
		return nil, "", fmt.Errorf("enter the spool's folder: %w", err)
	}
	syscall.Close(spoolFD)
	return listener, ".", nil
}
