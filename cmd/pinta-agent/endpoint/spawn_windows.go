package endpoint

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
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
		err := Serve(context.Background(), inR, outW, lend(p.o.Listener), p.o.Setup.SpoolDir, p.o.Stderr)
		outW.CloseWithError(err)
		done <- err
	}()
	return &child{in: inW, out: outR,
		wait: func() error { return errors.Join(<-done, errors.New("it ended by itself")) },
		kill: func() { inW.Close(); outR.Close() },
	}, nil
}

// lent is the service's listener for one child. Closing it ends the child's
// Accept, without which the child would never end; the service's stays open for
// the next one.
type lent struct {
	net.Listener
	conns  <-chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// accepting holds a channel of connections for each listener that is lent.
var accepting sync.Map

func lend(l net.Listener) *lent {
	conns := make(chan net.Conn)
	if known, loaded := accepting.LoadOrStore(l, conns); loaded {
		conns = known.(chan net.Conn)
	} else {
		go func() {
			defer close(conns)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				conns <- c
			}
		}()
	}
	return &lent{Listener: l, conns: conns, closed: make(chan struct{})}
}

func (l *lent) Accept() (net.Conn, error) {
	select {
	case c, ok := <-l.conns:
		if ok {
			return c, nil
		}
	case <-l.closed:
	}
	return nil, net.ErrClosed
}

func (l *lent) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Unprivileged reports whether children run as an account of their own.
func Unprivileged(string) bool { return false }

// Inherited has no use on Windows.
func Inherited() (net.Listener, string, error) {
	return nil, "", errors.New("the service runs guard and relay itself on Windows")
}
