package queue

import (
	"time"

	"github.com/pinta-ai/pinta-agent/hook/rawjson"
)

// A line is {"savedAt":ISO,"payload":{"resourceSpans":[…]}}. Two that a lost line end has joined are still two.

// parse returns the resourceSpans elements of a line that are to be delivered, and how many entries of it were too old or damaged.
func parse(line []byte, now time.Time) (elements [][]byte, old, damaged int) {
	for pos := rawjson.Skip(line, 0); pos < len(line); pos = rawjson.Skip(line, pos) {
		end, err := rawjson.Value(line, pos)
		if err != nil {
			return elements, old, damaged + 1
		}
		found, saved := entry(line[pos:end])
		switch {
		case found == nil:
			damaged++
		case tooOld(saved, now):
			old++
		default:
			elements = append(elements, found...)
		}
		pos = end
	}
	return elements, old, damaged
}

// entry returns the resourceSpans elements of one entry, none if it is not what a collector could read.
func entry(value []byte) (elements [][]byte, saved string) {
	members, err := rawjson.Members(value)
	if err != nil {
		return nil, ""
	}
	saved, _ = rawjson.Unquote(last(members, "savedAt"))
	if members, err = rawjson.Members(last(members, "payload")); err != nil {
		return nil, ""
	}
	if elements, err = rawjson.Elements(last(members, "resourceSpans")); err != nil {
		return nil, ""
	}
	for _, e := range elements {
		if rawjson.Kind(e) != '{' {
			return nil, ""
		}
	}
	return elements, saved
}

func last(members []rawjson.Member, key string) (value []byte) {
	for _, m := range members {
		if m.Key == key {
			value = m.Value
		}
	}
	return value
}
