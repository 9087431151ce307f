package hook

import (
	"bytes"
	"io"
	"runtime"
	"strings"

	"github.com/pinta-ai/pinta-agent/hook/config"
	"github.com/pinta-ai/pinta-agent/hook/event"
	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// maxPolicy is the size of the largest machine policy file that counts. The
// host reads one of 64 KiB; of 200 KiB it skips it without a word (measured on
// 1.0.102). The installer's own has some 30.
const maxPolicy = 64 << 10

// policyOwner is the mark of the installer in entries that are ours.
const policyOwner = "pinta-agent"

// firstPolicy is the first version of the Copilot CLI known to honour policy
// files (installer.md 2).
var firstPolicy = [3]int{1, 0, 102}

// mayYield says whether the event may be the machine's own entry's to judge
// (hook.md 12), as far as the process tells: the run is the user's entry, in a
// CLI that honours policy files.
func (r *run) mayYield() bool {
	if r.stays || r.env.Process(config.Source) != "user" || r.env.Process(config.Event) == "" ||
		!atLeast(r.env.Process("COPILOT_CLI_BINARY_VERSION"), firstPolicy) {
		return false
	}
	for _, pair := range r.p.Environ() {
		if strings.HasPrefix(pair, "VSCODE_") {
			return false
		}
	}
	return true
}

// yields says whether this run, which may, leaves the event to the machine's
// entry: that one is in force for this very client. In doubt it doesn't yield:
// two judgements are better than none.
func (r *run) yields(e *event.Event) (yes bool) {
	if !cliEvent(e) {
		return false
	}
	r.fromDisk(policyTicks, func() {
		f, err := r.p.Policy()
		if err != nil {
			return
		}
		defer f.Close()
		yes = inForce(f, r.scratch(), r.env.Process(config.Event))
	})
	return yes
}

// cliEvent says whether the event has the CLI's shape.
func cliEvent(e *event.Event) bool {
	if e.Raw("tool_response") != nil {
		return false
	}
	for _, key := range [...]string{"transcript_path", "transcriptPath"} {
		// The CLI's transcript is session-state/<id>/events.jsonl; VS Code's lies elsewhere.
		if path, ok := e.String(key); ok && path != "" && !strings.HasSuffix(strings.ReplaceAll(path, `\`, "/"), "/events.jsonl") {
			return false
		}
	}
	return true
}

// Policy is the machine's hook file, open.
type Policy interface {
	io.ReaderAt
	io.Closer
}

// page is the unit in which memory is first touched, which costs a short run
// more than anything that it does with that memory.
const page = 4 << 10

// scratch is memory for the policy file: the rest of the page in which the
// event ends, or else a new one.
func (r *run) scratch() []byte {
	const least = 1 << 10
	if free := r.raw[len(r.raw):cap(r.raw)]; len(free) >= least {
		if rest := page - len(r.raw)%page; rest >= least {
			return free[:min(rest, len(free))]
		}
	}
	return make([]byte, page)
}

// inForce says whether the policy file registers the machine's run for the
// event of this binding. buf is all the memory that a usual file takes: it
// passes through buf once, and then the entries of this event alone are read.
func inForce(f Policy, buf []byte, binding string) bool {
	s := stream{file: f, buf: buf}
	var from, to int64
	versioned := false
	sound := s.object(func(key string) bool {
		switch key {
		case "version":
			versioned = true
			return s.value() && string(s.word()) == "1"
		case "hooks":
			from, to = 0, 0
			return s.object(func(key string) bool {
				from0 := s.start()
				if !s.value() {
					return false
				}
				if key == binding {
					from, to = from0, s.at
				}
				return s.head[0] == '[' // else the host may skip the file
			})
		}
		return false // the host skips a policy file with a key that it doesn't know
	})
	if !sound || !versioned || !s.ended() || from == to {
		return false
	}
	if to-from > int64(len(buf)) {
		buf = make([]byte, to-from)
	}
	list := buf[:to-from]
	if n, _ := f.ReadAt(list, from); n < len(list) || rawjson.Kind(list) != '[' || !rawjson.Valid(list) {
		return false
	}
	// An entry that it doesn't know hides from the host those behind it: ours
	// has to be the first.
	found, n := false, 0
	rawjson.Walk(list, func(_, entry []byte) {
		if n++; n == 1 {
			found = rawjson.Kind(entry) == '{' && ours(entry, binding)
		}
	})
	return found
}

// stream reads JSON piece by piece, through a buffer smaller than the text.
type stream struct {
	file Policy
	buf  []byte
	rest []byte   // of buf, still to come
	at   int64    // where rest lies in the file
	head [64]byte // how the value read last begins: no key and no version that counts is longer
	n    int      // bytes in head
	bad  bool     // the file can't be read, or is too large
}

// next skips white space and tells the byte that follows, 0 if there is none.
func (s *stream) next() byte {
	for {
		n := rawjson.Skip(s.rest, 0)
		s.rest, s.at = s.rest[n:], s.at+int64(n)
		if len(s.rest) > 0 {
			return s.rest[0]
		}
		if !s.more() {
			return 0
		}
	}
}

func (s *stream) more() bool {
	if s.bad = s.at > maxPolicy; s.bad {
		return false
	}
	n, err := s.file.ReadAt(s.buf, s.at)
	s.rest, s.bad = s.buf[:n], n == 0 && err != io.EOF
	return n > 0
}

// ended says whether nothing but white space is left.
func (s *stream) ended() bool {
	s.next()
	return len(s.rest) == 0 && !s.bad
}

// start is where the next value lies.
func (s *stream) start() int64 {
	s.next()
	return s.at
}

// take passes over one byte, if it is the next.
func (s *stream) take(c byte) bool {
	if s.next() != c {
		return false
	}
	s.rest, s.at = s.rest[1:], s.at+1
	return true
}

// word is the value read last, if it is a short one.
func (s *stream) word() []byte { return s.head[:s.n] }

// value passes over one whole value.
func (s *stream) value() bool {
	s.next()
	s.n = 0
	scan := rawjson.Scanner{Strict: true} // the host's reader is: what it can't read it skips
	for len(s.rest) > 0 || s.more() {
		n, complete, err := scan.Feed(s.rest)
		s.n += copy(s.head[s.n:], s.rest[:n])
		s.rest, s.at = s.rest[n:], s.at+int64(n)
		if complete || err != nil {
			return err == nil
		}
	}
	return false
}

// object passes over one object. member passes over the value of each key.
func (s *stream) object(member func(key string) bool) bool {
	if !s.take('{') {
		return false
	}
	for more := !s.take('}'); more; more = !s.take('}') {
		if s.next() != '"' || !s.value() {
			return false
		}
		key, _ := rawjson.Unquote(s.word())
		if !s.take(':') || !member(key) {
			return false
		}
		if s.next() != '}' && (!s.take(',') || s.next() != '"') {
			return false
		}
	}
	return true
}

// ours says whether an entry is the machine's run of this program for the event
// of this binding, in the very shape that the installer gives it. With any other
// key, or one key twice, the host may skip it, run it for some tools only, or run
// something else.
func ours(entry []byte, binding string) bool {
	var parts int
	sound := true
	rawjson.Walk(entry, func(key, value []byte) {
		name, _ := rawjson.Unquote(key)
		p := part(name, value, binding)
		sound = sound && p != 0 && parts&p == 0
		parts |= p
	})
	return sound && (parts == common|hasExec|hasArgs || runtime.GOOS == "windows" && parts == common|hasPowerShell)
}

// The parts of an entry of ours: common to all of them, and what it runs.
const (
	hasType = 1 << iota
	hasEnv
	hasTimeout
	hasMark
	hasExec
	hasArgs
	hasPowerShell
	common = hasType | hasEnv | hasTimeout | hasMark
)

// part tells which part of an entry of ours this is, 0 if it can be none.
func part(key string, value []byte, binding string) int {
	sound, p := false, 0
	switch key {
	case "type":
		p, sound = hasType, is(value, "command")
	case "env":
		p, sound = hasEnv, ofMachine(value, binding)
	case "timeoutSec":
		const most = 1e6 // in milliseconds it has to fit the host's timer
		n, ok := whole(string(value))
		p, sound = hasTimeout, ok && 0 < n && n < most
	case "x-pinta":
		p, sound = hasMark, text(value, "owner") == policyOwner
	case "exec":
		p, sound = hasExec, is(value, "/bin/sh")
	case "args":
		p, sound = hasArgs, script(value)
	case "powershell":
		p, sound = hasPowerShell, passable(value) && !is(value, "")
	}
	if !sound {
		return 0
	}
	return p
}

// is says whether value is this string.
func is(value []byte, want string) bool {
	s, ok := rawjson.Unquote(value)
	return ok && s == want
}

// passable says whether value is a string that a process can be given: one with
// a NUL the host can't start it with. (The text of an escaped backslash before
// u0000 is refused as well.)
func passable(value []byte) bool {
	return rawjson.Kind(value) == '"' && !bytes.Contains(value, []byte(`\u0000`))
}

// ofMachine says whether env makes a run the machine's, which knows its event
// and asks the guard.
func ofMachine(env []byte, binding string) bool {
	if rawjson.Kind(env) != '{' {
		return false
	}
	sound := true
	rawjson.Walk(env, func(key, value []byte) {
		sound = sound && passable(key) && passable(value) && !is(key, "") && bytes.IndexByte(key, '=') < 0
	})
	return sound && text(env, config.Source) == "machine" && text(env, config.Event) == binding && text(env, config.GuardDisabled) != "1"
}

// script says whether args make /bin/sh run a text.
func script(args []byte) bool {
	if rawjson.Kind(args) != '[' {
		return false
	}
	n, sound := 0, true
	rawjson.Walk(args, func(_, value []byte) {
		n++
		sound = sound && passable(value) && (n != 1 || is(value, "-c")) && (n != 2 || !is(value, ""))
	})
	return sound && n == 2
}

// text is the string under key, the last if there are several; empty if object
// is none.
func text(object []byte, key string) (s string) {
	if rawjson.Kind(object) == '{' {
		rawjson.Walk(object, func(k, value []byte) {
			if name, _ := rawjson.Unquote(k); name == key {
				s, _ = rawjson.Unquote(value)
			}
		})
	}
	return s
}

// atLeast compares a dotted version, a suffix ignored, with a minimum. What is
// no version is less.
func atLeast(version string, least [3]int) bool {
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	if len(parts) != len(least) {
		return false
	}
	for i, part := range parts {
		n, ok := whole(part)
		if !ok {
			return false
		}
		if n != least[i] {
			return n > least[i] && valid(parts[i+1:])
		}
	}
	return true
}

func valid(parts []string) bool {
	for _, part := range parts {
		if _, ok := whole(part); !ok {
			return false
		}
	}
	return true
}

// whole reads a number of up to nine digits. strconv would be so much more
// code, and so much deeper a stack, as to be felt in the time of the run.
func whole(s string) (n int, ok bool) {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, s != "" && len(s) <= 9
}
