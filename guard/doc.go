// Package guard decides on tool calls and tool outputs by a signed config's
// rules: it reads policies, compiles them, and answers the hook's question over
// HTTP. It fetches and verifies no config (that is sync/device), and it keeps
// nothing of what it judges but rule, category and a masked excerpt.
//
// # Conditions
//
// when and except are CEL over kind, surface, tool (canonical), host_tool, input
// (the tool's input as a map), text (every string and long number of the input,
// one a line), commands, output, cwd, user and host (from the kernel and the
// agent, never from the event), group, model, secrets, and paths and writes: the files that a
// call names and those it would change, cleaned, joined to cwd (also after cd),
// with ~ for the home folder. A command has name, path, argv, args, flags, env,
// reads, writes, via (the wrappers that run it), from and to (the commands that
// its input comes from and its output goes to), see guard/shell, and targets:
// those of the paths in writes that it changes itself. A secret has
// type and origin (input or output). A condition that fails on an event, say for
// a key that the input lacks, doesn't hold; one that fails on a value of another
// type is named in the verdict and the log. One that could make texts many times
// as large as the event (replace by something longer, join of map) is refused.
//
// # Prefilter
//
// A config of hundreds of rules is judged quickly because most rules are never
// evaluated. When a rule is compiled, the strings that must occur wherever its
// condition is true are derived from the CEL expression: the constants of ==,
// in, contains, startsWith and endsWith, the literals that a regular expression
// of matches can't do without, joined by the expression's own && and ||. What
// says nothing (a negation, a number, a call of anything else) needs nothing.
// All literals of all rules form one Aho–Corasick automaton (guard/literal). A
// question costs one pass of it over everything that a condition can read: the
// input's strings, the output, the parsed words of the commands, the paths and
// the names; then only rules whose needs are met are evaluated, deny first. The
// paths are worked out, and passed over, only if a rule on paths could match by
// the names that paths are made of.
// Case is ignored there, so a filter may let too much through, never too
// little. A rule that needs nothing is evaluated always, and for more than
// 64 KiB only if it says slow: true.
//
// Detectors run when a rule that got that far asks for them, once for all of
// them (guard/detect has its own pass).
package guard
