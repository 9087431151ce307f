//go:build unix

package endpoint

import (
	"net"
	"testing"
	"time"
)

// TestConnectionsOfOneUser: whoever opens them without end has the newest
// closed, and is answered again when there are fewer.
func TestConnectionsOfOneUser(t *testing.T) {
	_, socket := servedAt(t, Setup{})
	open := func() net.Conn {
		t.Helper()
		c, err := net.DialTimeout("unix", socket, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	answered := func(c net.Conn) bool {
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: agent\r\n\r\n")); err != nil {
			return false
		}
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, _ := c.Read(make([]byte, 100))
		return n > 0
	}
	var all []net.Conn
	for range userConnections {
		all = append(all, open())
	}
	if !answered(all[len(all)-1]) {
		t.Error("the last one allowed is not answered")
	}
	if answered(open()) {
		t.Error("one too many is answered")
	}
	for _, c := range all {
		c.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); !answered(open()); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not answered when the others are gone")
		}
	}
}

// TestConnectionsOfOthers: nobody's connections count for another.
func TestConnectionsOfOthers(t *testing.T) {
	var l connections
	conns := make([]struct{ net.Conn }, 2*userConnections)
	for i := range conns {
		if ok := l.open(&conns[i], "a"); ok != (i < userConnections) {
			t.Fatalf("connection %d: %t", i, ok)
		}
	}
	other := &struct{ net.Conn }{}
	if !l.open(other, "b") {
		t.Error("another user is refused")
	}
	l.gone(other)
	for i := range conns {
		l.gone(&conns[i])
	}
	if len(l.of)+len(l.count) != 0 {
		t.Errorf("%d connections of %d users are left", len(l.of), len(l.count))
	}
}
