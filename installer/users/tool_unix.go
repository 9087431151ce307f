//go:build unix

package users

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

// tool runs a program of the system by absolute path, without a shell, with an
// empty environment and for at most five seconds.
func tool(ctx context.Context, path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = []string{"LC_ALL=C"}, "/", time.Second
	var out limited
	cmd.Stdout = &out
	err := cmd.Run()
	if out.over {
		return nil, errors.New("too much output of " + path)
	}
	return out.Bytes(), err
}

const maxTool = 16 << 20

type limited struct {
	bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxTool {
		l.over = true
		return len(p), nil
	}
	return l.Buffer.Write(p)
}

func privileged() bool { return os.Geteuid() == 0 }

func (a Account) isSelf() bool { return a.UID == os.Geteuid() }
