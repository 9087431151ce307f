package manager

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// filePair serves a certificate from files and takes a renewed one without a restart.
type filePair struct {
	cert, key string
	now       func() time.Time

	mu      sync.Mutex
	checked time.Time
	stamp   time.Time // of the certificate file
	pair    *tls.Certificate
}

// certificate looks at the file at most once a minute; a renewal that can't be read leaves the old one in use.
func (p *filePair) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.pair != nil && now.Sub(p.checked) < time.Minute {
		return p.pair, nil
	}
	p.checked = now
	info, err := os.Stat(p.cert)
	if err == nil && p.pair != nil && info.ModTime().Equal(p.stamp) {
		return p.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		if p.pair != nil {
			return p.pair, nil
		}
		return nil, fmt.Errorf("TLS certificate: %w", err)
	}
	p.pair = &pair
	if info != nil {
		p.stamp = info.ModTime()
	}
	return p.pair, nil
}
