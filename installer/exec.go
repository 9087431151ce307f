package installer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// Exec implements System. The working directory is the file system's root, so
// that nobody's folder is held or trusted.
func (r real) Exec(ctx context.Context, c Command) (Output, error) {
	if !filepath.IsAbs(c.Path) {
		return Output{}, fmt.Errorf("run %q: not an absolute path", c.Path)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, c.Args...)
	cmd.Env = append([]string{}, c.Env...)
	cmd.Dir = filepath.VolumeName(c.Path) + string(filepath.Separator)
	cmd.Stdin = bytes.NewReader(c.Stdin)
	var out, errs capped
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // a grandchild that holds the pipes doesn't hold us
	isolate(cmd)
	begin := time.Now()
	err := cmd.Run()
	if errors.Is(err, errBusy) && ctx.Err() == nil {
		// A child that another goroutine forked just now still holds the
		// descriptor by which the image was written, until it execs.
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
		return r.Exec(ctx, c)
	}
	o := Output{Stdout: out.Bytes(), Stderr: errs.Bytes(), Took: time.Since(begin)}
	if ctx.Err() != nil {
		return o, fmt.Errorf("run %s: no end after %s", c.Path, c.Limit)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		o.Status = statusOf(exit)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return o, err
	}
	return o, nil
}

// capped keeps the first maxOutput bytes and swallows the rest.
type capped struct{ bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if room := maxOutput - c.Len(); room > 0 {
		c.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}
