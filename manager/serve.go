package manager

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

const (
	// endTime bounds the end of the server (manager.md 7: within 5 s).
	endTime = 4 * time.Second
	// idleTime is how long a connection is kept between two requests. A device's poll keeps its own; the one of its reports
	// is cheaper made anew than held. It must be longer than a busy Manager takes to look at what has come, or it would close
	// connections that hold a request.
	idleTime = 20 * time.Second
)

// ServeOptions are Options and where to listen.
type ServeOptions struct {
	Options
	Listen          string // address [:8443, with HTTP 127.0.0.1:8080]
	TLSCert, TLSKey string // PEM files; absent: own CA and certificate
	HTTP            bool   // no TLS, on loopback only
	ReadyFile       string // gets {"url","adminKeyFile","pid"} when the server is ready
}

// Serve runs a Manager until ctx ends, then answers held polls and ends within 5 s.
func Serve(ctx context.Context, o ServeOptions) error {
	o.defaults()
	var err error
	if o.Dir, err = filepath.Abs(o.Dir); err != nil { // the ready file names the key file to whoever reads it, wherever
		return fmt.Errorf("data directory: %w", err)
	}
	if err := safefile.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	l, err := listen(&o)
	if err != nil {
		return err
	}
	defer l.Close()
	conf, err := o.tls(l.Addr())
	if err != nil {
		return err
	}
	m, err := Open(o.Options)
	if err != nil {
		return err
	}
	err = m.serve(ctx, l, conf, o.ReadyFile)
	return errors.Join(err, m.Close())
}

// listen binds the address; plain HTTP is refused anywhere but on loopback, by what was bound, not by how it was spelled.
func listen(o *ServeOptions) (net.Listener, error) {
	if o.HTTP && (o.TLSCert != "" || o.TLSKey != "") {
		return nil, errors.New("--http and --tls-cert exclude each other")
	}
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, errors.New("--tls-cert and --tls-key go together")
	}
	if o.Listen == "" {
		o.Listen = ":8443"
		if o.HTTP {
			o.Listen = "127.0.0.1:8080"
		}
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); o.HTTP && (!ok || !a.IP.IsLoopback()) {
		return nil, errors.Join(fmt.Errorf("plain HTTP is for loopback only, not for %s: leave out --http, or listen on 127.0.0.1", o.Listen), l.Close())
	}
	return l, nil
}

// tls fills in URL and pin and returns the TLS configuration; nil for plain HTTP.
func (o *ServeOptions) tls(addr net.Addr) (*tls.Config, error) {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("host name: %w: name the Manager by --url", err)
		}
	}
	scheme := "https"
	if o.HTTP {
		scheme = "http"
	}
	if o.URL == "" {
		o.URL = scheme + "://" + net.JoinHostPort(strings.ToLower(host), port)
	}
	if o.HTTP {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if o.TLSCert != "" {
		pair := &filePair{cert: o.TLSCert, key: o.TLSKey, now: o.Now}
		if _, err := pair.certificate(nil); err != nil {
			return nil, err
		}
		conf.GetCertificate = pair.certificate
		return conf, nil
	}
	a, err := openAuthority(o.Dir, o.Now)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("--url: %w", err)
	}
	for _, h := range []string{u.Hostname(), strings.ToLower(host), "localhost", "127.0.0.1", "::1"} {
		a.add(h)
	}
	o.Pin, conf.GetCertificate = a.pin(), a.certificate
	return conf, nil
}

// serve answers on l until ctx ends.
func (m *Manager) serve(ctx context.Context, l net.Listener, conf *tls.Config, readyFile string) error {
	keyFile, err := m.FoundAdmin(ctx)
	if err != nil {
		return err
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Run(background)
	}()
	srv := newServer(m.Handler(), m.opt.Log)
	m.lot = newLot()
	go func() { _ = srv.Serve(m.lot) }() // ends with the server
	served := make(chan error, 1)
	if conf != nil {
		l = tls.NewListener(l, conf)
	}
	go func() { served <- srv.Serve(l) }()
	if readyFile != "" {
		if err := writeReady(readyFile, m.opt.URL, keyFile); err != nil {
			return errors.Join(err, srv.Close())
		}
	}
	m.opt.Log.Info("manager serves", "url", m.opt.URL, "root", m.Root(), "adminKeyFile", keyFile)
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	m.opt.Log.Info("manager ends")
	m.Release()
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if err := srv.Shutdown(end); err != nil {
		err = srv.Close() // who still hasn't his answer goes without
		if err != nil {
			m.opt.Log.Warn("close connections", "err", err)
		}
	}
	m.awaitAnswers(end)
	stop()
	<-done
	return nil
}

// awaitAnswers waits until those who were held have their answers; they are out of the server's sight.
func (m *Manager) awaitAnswers(ctx context.Context) {
	t := time.NewTicker(2 * time.Millisecond)
	defer t.Stop()
	for m.hub.held.Load() > 0 {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// newServer bounds everything that a client can draw out. Reads and writes of a request have deadlines of their own, since a
// poll is held for long.
func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 30 * time.Second, IdleTimeout: idleTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func writeReady(path, url, keyFile string) error {
	text, err := json.Marshal(struct {
		URL          string `json:"url"`
		AdminKeyFile string `json:"adminKeyFile"`
		PID          int    `json:"pid"`
	}{url, keyFile, os.Getpid()})
	if err != nil {
		return err
	}
	if err := safefile.WriteFile(path, append(text, '\n'), safefile.Private); err != nil {
		return fmt.Errorf("ready file: %w", err)
	}
	return nil
}
