package redact

import "strings"

// mysql takes -p<value> of a command of the mysql and mariadb family; i is where the command's name may begin.
func (s *scanner) mysql(i int) {
	t := s.text
	if i < s.shell || !hasPrefix(t, i, "mysql") && !hasPrefix(t, i, "mariadb") {
		return
	}
	if i > 0 && (classes[t[i-1]]&base64URL != 0 || t[i-1] == '.') {
		return
	}
	end := span(t, i, lower|digit|under|dash)
	if hasPrefix(t, end, ".exe") {
		end += len(".exe")
	}
	name := end
	end = skipQuote(t, end)
	if end == len(t) || classes[t[end]]&blank == 0 && !continues(t, end) || s.isArgument(i, end > name) {
		return
	}
	s.shell = s.arguments(end)
}

// isArgument tells whether the name at i is an argument of a command that has options of its own beginning with -p, like
// find and mkdir, or the value of an option before it. quoted says that a quote closes right behind it.
func (s *scanner) isArgument(i int, quoted bool) bool {
	t := s.text
	before := strings.TrimLeft(t[s.commandStart(i):i], " \t")
	word := before[strings.LastIndexAny(before, " \t")+1:] // what stands before the name in its own word
	words := strings.TrimRight(strings.TrimSuffix(before, word), " \t")
	if words == "" || !quoted && strings.ContainsAny(word, `"'`) { // the beginning of a command in quotes
		return false
	}
	switch words[strings.LastIndexAny(words, " \t")+1:] {
	case "-exec", "-execdir", "-ok", "-okdir":
		return false
	case "--name", "--user", "-u", "--host", "--hostname", "-h", "--network", "--link", "-n", "-c", "--container", "--service", "-s":
		return true
	}
	first := words[:spanUntil(words, 0, blank)]
	first = first[strings.LastIndexAny(first, `/\`)+1:]
	switch first {
	case "find", "fd", "mkdir", "rmdir", "cd", "ls", "cp", "mv", "rm", "ln", "touch", "install", "rsync", "scp", "tar", "cpio", "zip",
		"du", "grep", "egrep", "fgrep", "rg", "git", "patch", "mount", "pgrep", "pkill", "ps", "which", "type", "man":
		return true
	}
	return false
}

// commandStart returns where the simple command that i lies in begins.
func (s *scanner) commandStart(i int) int {
	from := i
	for from > s.line.end && classes[s.text[from-1]]&lineBreak == 0 && strings.IndexByte(";|&()`", s.text[from-1]) < 0 {
		from--
	}
	if from > 0 && from == s.line.end {
		from = s.line.start // no separator since then
	}
	s.line = run{from, i}
	return from
}

// arguments goes over the arguments from i on and returns where the command ends.
func (s *scanner) arguments(i int) int {
	t := s.text
	depth := 0 // of $( )
	for i < len(t) {
		c := t[i]
		switch {
		case classes[c]&blank != 0:
			i++
		case continues(t, i):
			i += 2
		case c == '<' || c == '>':
			i++
		case c == '&' && (t[i-1] == '<' || t[i-1] == '>' || hasPrefix(t, i, "&>")):
			i++
		case c == '(':
			depth++
			i++
		case c == ')' && depth > 0:
			depth--
			i++
		case c == ')' || c == '`' || c == ';' || c == '|' || c == '&' || classes[c]&lineBreak != 0:
			return i
		default:
			var more bool
			if i, more = s.argument(i); !more {
				return i
			}
		}
	}
	return i
}

// continues tells whether a backslash at i joins two lines.
func continues(t string, i int) bool {
	return t[i] == '\\' && i+1 < len(t) && classes[t[i+1]]&lineBreak != 0
}

// argument goes over one argument and returns its end, and whether the command goes on.
func (s *scanner) argument(i int) (end int, more bool) {
	t := s.text
	option := i
	quoted := t[i] == '"' || t[i] == '\''
	if quoted {
		option++
	}
	if hasPrefix(t, option, "-p") && option+2 < len(t) && classes[t[option+2]]&(valueEnd&^quote) == 0 {
		if !quoted {
			return max(s.secret(shortFlag, option+2), option+2), true
		}
		if end := s.closing(i+1, t[i], 0); end > option+2 {
			s.add(shortFlag, option+2, end)
			return end + 1, true
		}
	}
	for first := i; i < len(t); {
		c := classes[t[i]]
		switch {
		case c&quote != 0 && t[i] != '`':
			if i > first && (i+1 == len(t) || classes[t[i+1]]&(blank|lineBreak|operator) != 0) {
				return i, false // the quote ends a text around the command
			}
			if end := s.closing(i+1, t[i], 0); end >= 0 {
				i = end
			}
			i++
		case t[i] == '\\' && i+1 < len(t) && classes[t[i+1]]&(blank|lineBreak) == 0:
			i += 2
		case c&valueEnd != 0:
			return i, true
		default:
			i++
		}
	}
	return i, true
}
