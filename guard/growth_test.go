package guard

import (
	"strings"
	"testing"
)

// TestGrowth: a condition that would make texts many times as large as the event
// is refused; what shortens, joins words or puts a few together is not.
func TestGrowth(t *testing.T) {
	long := strings.Repeat("a", 16)
	for when, refused := range map[string]bool{
		"text.replace('a', '" + long + "').size() > 0":                                                                              true,
		"text" + strings.Repeat(".replace('a', 'aaa')", 8) + ".contains('x')":                                                       true,
		"[text].map(x, x.replace('a', 'aaa')).map(x, x.replace('a', 'aaa')).map(x, x.replace('a', 'aaa')).exists(x, x == 'b')":      true,
		"text.replace('', 'xxxxxxxxxxxxxxxxxxxx').contains('x')":                                                                    true,
		"text.replace('a', text).contains('x')":                                                                                     true,
		"text.split('').map(x, text).join('').contains('x')":                                                                        true,
		"text.split('').join('" + long + "').contains('x')":                                                                         true,
		"text.split('').join(cwd).contains('x')":                                                                                    true,
		"'" + strings.Repeat("%s", 20) + "'.format([" + strings.Repeat("text,", 19) + "text]).contains('x')":                        true,
		"(" + strings.Repeat("text+", 20) + "text).contains('x')":                                                                   true,
		"true || [text, text, text].exists(x, x.replace('a', '" + long + "') == 'b')":                                               true,
		"text.replace('\\\\', '').replace('\"', '').replace('aa', 'b').contains('rm -rf')":                                          false,
		"commands.exists(c, c.args.join(' ').contains('push --force'))":                                                             false,
		"text.split('\\n').join(' ').contains('x')":                                                                                 false,
		"'%s/%s'.format([cwd, host_tool]) == 'x/y'":                                                                                 false,
		"(cwd + '/' + host_tool).contains('x')":                                                                                     false,
		"text.replace('~', '/home').contains('/home/x')":                                                                            false,
		"commands.map(c, c.name).exists(n, n == 'rm') && commands.filter(c, 'x' in c.args).size() > 1":                              false,
		"{'a': text, 'b': cwd}[host_tool].contains('x') || ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'].exists(x, x == host_tool)": false,
	} {
		_, err := Compile(&Policy{Mode: "enforce", TimeoutMs: 400, OnOverrun: "allow", Rules: []Rule{{ID: "a", On: "tool_input", When: when, Action: "deny"}}})
		if (err != nil) != refused {
			t.Errorf("%s: %v", when, err)
		}
	}
}
