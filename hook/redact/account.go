package redact

import (
	"strings"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// serviceAccounts takes JSON objects whose type is service_account out of text that is no JSON as a whole.
func (s *scanner) serviceAccounts() {
	if !strings.Contains(s.text, "service_account") {
		return
	}
	data := []byte(s.text)
	seen := make([]uint64, len(data)/64+1) // brackets that some attempt has taken for an object's
	for pos := 0; ; pos++ {
		n := strings.IndexByte(s.text[pos:], '{')
		if n < 0 {
			return
		}
		pos += n
		if seen[pos>>6]>>(pos&63)&1 == 1 {
			continue
		}
		for _, m := range objects(data, pos, seen) {
			j := walker{src: s.text[m.start:m.end], data: data[m.start:m.end], w: accountsOnly{s.rules}}
			j.walk()
			for _, a := range j.outermost() {
				s.add(serviceAccount, m.start+a.start, m.start+a.end)
			}
		}
	}
}

// objects reads JSON from the bracket at pos until it ends or breaks, and returns the complete objects that are in no other
// one. Attempts from two brackets can only overlap if one takes for text what the other takes for a string, and brackets
// within an attempt are not tried again, so that all attempts together are linear.
func objects(data []byte, pos int, seen []uint64) []mark {
	var scan rawjson.Scanner
	var open []int
	var out []mark
	for i := pos; i < len(data); {
		next := i
		for next < len(data) && data[next] != '{' && data[next] != '}' {
			next++
		}
		if _, _, err := scan.Feed(data[i:next]); err != nil || next == len(data) {
			break
		}
		before := scan.Depth()
		_, complete, err := scan.Feed(data[next : next+1])
		if err != nil {
			break
		}
		switch after := scan.Depth(); {
		case after > before:
			open = append(open, next)
			seen[next>>6] |= 1 << (next & 63)
		case after < before:
			start := open[len(open)-1]
			open = open[:len(open)-1]
			for len(out) > 0 && out[len(out)-1].start > start {
				out = out[:len(out)-1]
			}
			out = append(out, mark{start, next + 1})
		}
		if complete {
			break
		}
		i = next + 1
	}
	return out
}

// accountsOnly lets a walker look for service accounts and nothing else.
type accountsOnly struct{ Rules }

func (accountsOnly) plain(string, string) []edit { return nil }
