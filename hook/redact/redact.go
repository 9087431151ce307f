// Package redact takes secrets out of text before it leaves the process: the patterns of hook.md 7 and, on a denial, the
// values that the guard detected (hook.md 5.2). It changes text only; which parts of an event pass through it, and what is
// sent or printed, its callers decide. It knows secrets by their looks: it is no scanner for what the guard should deny.
//
// Every function is linear in its input, recurses only into JSON text within JSON strings (a bounded number of levels) and
// keeps each byte that is no secret, so that JSON which parsed still parses.
package redact

// Rules choose how text is treated. The zero value is plain redaction.
type Rules uint8

const (
	// Tool adds what counts in a tool's input or output only: the short password option of the mysql family.
	Tool Rules = 1 << iota
	// Judged is for the guard question that leaves the machine: a marker must not hide what would run (hook.md 4.1).
	Judged
)

// Text redacts s by all rules. JSON text is redacted within its decoded strings and still parses.
func Text(s string) string { return Tool.Text(s) }

// JSON redacts one JSON value within its decoded strings; it still parses. What is no JSON is redacted as text.
func JSON(raw []byte) []byte { return Tool.JSON(raw) }

// JudgedText is Text for the guard question over TCP.
func JudgedText(s string) string { return (Tool | Judged).Text(s) }

// JudgedJSON is JSON for the guard question over TCP.
func JudgedJSON(raw []byte) []byte { return (Tool | Judged).JSON(raw) }

// Text redacts s.
func (r Rules) Text(s string) string {
	out, _ := apply(s, edits(s, r, 0))
	return out
}

// JSON redacts raw; without anything to redact it returns raw itself.
func (r Rules) JSON(raw []byte) []byte {
	s := string(raw)
	list := edits(s, r, 0)
	if len(list) == 0 {
		return raw
	}
	out, _ := apply(s, list)
	return []byte(out)
}

// plain makes Rules a worker.
func (r Rules) plain(key, text string) []edit {
	found := r.find(key, text)
	if len(found) == 0 {
		return nil
	}
	out := make([]edit, len(found))
	for i, f := range found {
		out[i] = edit{f.start, f.end, f.kind.marker(), true}
	}
	return out
}

func (r Rules) scalar(string) []edit { return nil }

func (r Rules) accounts() accounts {
	if r.judged() {
		return secretsOnly
	}
	return wholeAccounts
}

func (r Rules) judged() bool { return r&Judged != 0 }
