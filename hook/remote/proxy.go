package remote

import (
	"errors"
	"net"
	"os"
	"runtime"
	"strings"

	"github.com/pinta-ai/pinta-agent/hook/post"
)

// proxyFor returns the proxy for t, nil for a direct connection.
func proxyFor(t post.Target, env post.Env) (*post.Target, error) {
	if post.Loopback(t.Host) {
		return nil, nil
	}
	raw := ""
	if t.TLS {
		raw = either(env, "https_proxy", "HTTPS_PROXY")
	} else {
		raw = either(env, "http_proxy", "HTTP_PROXY")
	}
	if raw == "" || exempt(t.Host, t.Port, either(env, "no_proxy", "NO_PROXY")) || aliasOfLoopback(t.Host) {
		return nil, nil
	}
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	p, err := post.ParseTarget(raw)
	if err != nil || post.Local(raw) {
		return nil, errors.New("the proxy's address is no http or https URL")
	}
	return &p, nil
}

func either(env post.Env, lower, upper string) string {
	if v := strings.TrimSpace(env(lower)); v != "" {
		return v
	}
	return strings.TrimSpace(env(upper))
}

// exempt says whether NO_PROXY names the host: *, a name and what lies below
// it, an address, a network, each with or without a port.
func exempt(host, port, list string) bool {
	addr := net.ParseIP(host)
	host = strings.TrimSuffix(host, ".")
	for entry := range strings.SplitSeq(list, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if entry == "*" {
			return true
		}
		if _, network, err := net.ParseCIDR(entry); err == nil {
			if addr != nil && network.Contains(addr) {
				return true
			}
			continue
		}
		if h, p, err := net.SplitHostPort(entry); err == nil {
			if p != port {
				continue
			}
			entry = h
		}
		entry = strings.Trim(entry, "[]")
		if a := net.ParseIP(entry); a != nil {
			if addr != nil && a.Equal(addr) {
				return true
			}
			continue
		}
		entry = strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		if entry != "" && (host == entry || strings.HasSuffix(host, "."+entry)) {
			return true
		}
	}
	return false
}

// maxHosts is how much of the hosts file is looked at.
const maxHosts = 256 << 10

// aliasOfLoopback says whether the hosts file gives host a loopback address.
// It is asked only when a proxy would be used otherwise.
func aliasOfLoopback(host string) bool {
	path := "/etc/hosts"
	if runtime.GOOS == "windows" {
		path = os.Getenv("SystemRoot") + `\System32\drivers\etc\hosts`
	}
	data, err := readSystem(path, maxHosts)
	if err != nil {
		return false
	}
	return hostsLoopback(string(data), strings.TrimSuffix(host, "."))
}

func hostsLoopback(hosts, host string) bool {
	for line := range strings.Lines(hosts) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 || !post.Loopback(fields[0]) {
			continue
		}
		for _, name := range fields[1:] {
			if strings.EqualFold(strings.TrimSuffix(name, "."), host) {
				return true
			}
		}
	}
	return false
}
