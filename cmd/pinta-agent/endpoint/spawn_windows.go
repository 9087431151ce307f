package endpoint

import (
	"context"
	"errors"
	"io"
	"net"
)

// Command is the hidden command that a child is started with; not on Windows.
const Command = "endpoint"

// spawn runs the child's code in this process: a pipe instance can't be handed
// to another account's process without giving it the right to make more of
// them, which is what the pipe's DACL refuses. doctor says so.
func (p *Parent) spawn() (*child, error) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := Serve(context.Background(), inR, outW, keptOpen{p.o.Listener}, p.o.Setup.SpoolDir, p.o.Stderr)
		outW.CloseWithError(err)
		done <- err
	}()
	return &child{in: inW, out: outR,
		wait: func() error { return errors.Join(<-done, errors.New("it ended by itself")) },
		kill: func() { inW.Close(); outR.Close() },
	}, nil
}

// keptOpen is a listener that outlives the servers on it.
type keptOpen struct{ net.Listener }

func (keptOpen) Close() error { return nil }

// Unprivileged reports whether children run as an account of their own.
func Unprivileged(string) bool { return false }

// Inherited has no use on Windows.
func Inherited() (net.Listener, string, error) {
	return nil, "", errors.New("the service runs guard and relay itself on Windows")
}
