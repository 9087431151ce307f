package installer

import (
	"slices"
	"testing"
)

func TestProcArgs(t *testing.T) {
	for name, test := range map[string]struct {
		raw  string
		want []string
		host bool
	}{
		"script":     {"\x03\x00\x00\x00/usr/local/bin/node\x00\x00\x00node\x00/opt/lib/node_modules/@github/copilot/index.js\x00-p\x00HOME=/x\x00", []string{"node", "/opt/lib/node_modules/@github/copilot/index.js", "-p"}, true},
		"other":      {"\x02\x00\x00\x00/usr/local/bin/node\x00\x00node\x00server.js\x00COPILOT=@github/copilot\x00", []string{"node", "server.js"}, false},
		"cut off":    {"\x05\x00\x00\x00/usr/local/bin/node\x00\x00node\x00serv", []string{"node"}, false},
		"no args":    {"\x00\x00\x00\x00/usr/local/bin/node\x00", nil, false},
		"many":       {"\xff\xff\xff\x7f/n\x00node\x00", []string{"node"}, false},
		"negative":   {"\xff\xff\xff\xff/n\x00node\x00", nil, false},
		"no path":    {"\x01\x00\x00\x00", nil, false},
		"too short":  {"\x01\x00", nil, false},
		"nothing":    {"", nil, false},
		"only blank": {"\x01\x00\x00\x00/n\x00\x00\x00\x00", nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			argv, ok := procArgs([]byte(test.raw))
			if !slices.Equal(argv, test.want) || ok != (len(test.want) > 0) || isHost(argv) != test.host {
				t.Errorf("%q, %v, host %v", argv, ok, isHost(argv))
			}
		})
	}
}
