package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// supervised serves under the service control manager if that started this
// process, else in the foreground. It tries instead of asking
// svc.IsWindowsService, which judges by session numbers and is wrong in some.
func (a *app) supervised(ctx context.Context) error {
	if a.root != "" {
		return a.serve(ctx, nil)
	}
	s := &controlled{app: a, ctx: ctx}
	err := svc.Run(serviceName, s)
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return a.serve(ctx, nil)
	}
	return errors.Join(err, s.err)
}

type controlled struct {
	app *app
	ctx context.Context //nolint:containedctx // svc.Run passes none
	err error
}

// Execute is what the service control manager starts. The service counts as
// running once hooks are answered; an installer rolls back if it never does.
func (s *controlled) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.StartPending, WaitHint: 30_000}
	if err := s.log(); err != nil {
		s.err = err
		return true, 2
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.app.serve(ctx, sync.OnceFunc(func() { close(ready) })) }()
	for {
		select {
		case <-ready:
			status <- svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
			ready = nil
		case s.err = <-ended:
			if s.err != nil {
				s.app.logger().Error("the service ends", "error", s.err)
				return true, 1
			}
			return false, 0
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				status <- r.CurrentStatus
			case svc.Stop, svc.Shutdown:
				status <- svc.Status{State: svc.StopPending, WaitHint: 10_000}
				cancel()
			}
		}
	}
}

// log: a service has no standard error.
func (s *controlled) log() error {
	if _, ok := s.app.stderr.(*logFile); ok {
		return nil
	}
	if err := safefile.MkdirAll(s.app.layout.StateDir, 0o700); err != nil {
		return err
	}
	log, err := openLog(filepath.Join(s.app.layout.StateDir, "agent.log"))
	if err != nil {
		return err
	}
	s.app.stderr = log
	return nil
}
