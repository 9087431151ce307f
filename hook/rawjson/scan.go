// Package rawjson walks JSON text without building values from it: it finds where values begin and end, keeps every byte
// and digit as it came, and never recurses, so no input can overflow the stack. It is no general decoder: what a value means
// is the caller's business.
//
// It is strict about grammar with two exceptions that the hosts need (hook.md 2): raw control characters inside strings are
// accepted, and bytes of strings need not be UTF-8.
package rawjson

import (
	"errors"
	"unicode/utf8"
)

// ErrIncomplete means that the text ended within a value: more input may complete it.
var ErrIncomplete = errors.New("json: value is not complete")

// ErrSyntax means that no further input can make the text JSON.
var ErrSyntax = errors.New("json: syntax error")

// Scanner finds the end of one JSON value in text that arrives in pieces; every byte is looked at once. The zero value is
// ready for use. It keeps one bit for each open object or array.
type Scanner struct {
	// Strict makes an error of what not every reader takes: bytes inside strings that are no ASCII or control
	// characters, escapes of lone surrogates, numbers that are no integers of a few digits, and deep nesting.
	Strict bool

	state  state
	key    bool   // the string being read is a member's key
	rest   string // what is still to come of true, false or null
	hex    int    // hex digits still to come of a \u escape
	unit   uint16 // those that came
	high   bool   // the escape before was the first of a surrogate pair
	digits int    // of the number being read, its sign included
	open   []uint64
	depth  int
	err    error
}

const (
	strictDepth  = 64
	strictDigits = 18
)

type state uint8

const (
	wantValue      state = iota
	wantValueOrEnd       // after [
	wantKeyOrEnd         // after {
	wantKey              // after , in an object
	wantColon
	wantComma // or the end of the object or array
	inString
	inEscape
	inHex
	inWord
	inMinus
	inZero
	inInt
	inPoint
	inFraction
	inExp
	inExpSign
	inExpDigits
	done
)

// Feed reads the next piece. It returns how many bytes belong to the value (white space before it included) and whether the
// value is complete; after an error or the end it reads no more. A number at the top level is complete only when something
// follows it: End asks whether it may stop here.
func (s *Scanner) Feed(data []byte) (n int, complete bool, err error) {
	if s.err != nil {
		return 0, false, s.err
	}
	i := 0
	for i < len(data) && s.state != done {
		c := data[i]
		switch s.state {
		case inString:
			if s.high && c != '\\' {
				return i, false, s.fail()
			}
			from := i
			i = special(data, i)
			if s.Strict && !printable(data[from:i]) {
				return from, false, s.fail()
			}
			if i == len(data) {
				return i, false, nil
			}
			c = data[i]
			switch {
			case c == '\\':
				s.state = inEscape
			case s.key:
				s.key, s.state = false, wantColon
			default:
				s.ended()
			}
		case inEscape:
			if s.high && c != 'u' {
				return i, false, s.fail()
			}
			switch c {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				s.state = inString
			case 'u':
				s.state, s.hex = inHex, 4
			default:
				return i, false, s.fail()
			}
		case inHex:
			if !isHex(c) {
				return i, false, s.fail()
			}
			s.unit = s.unit<<4 | hexValue(c)
			if s.hex--; s.hex == 0 {
				s.state = inString
				if s.Strict && !s.paired() {
					return i, false, s.fail()
				}
			}
		case inWord:
			if c != s.rest[0] {
				return i, false, s.fail()
			}
			if s.rest = s.rest[1:]; s.rest == "" {
				s.ended()
			}
		case inMinus, inZero, inInt, inPoint, inFraction, inExp, inExpSign, inExpDigits:
			next, ok := numberStep(s.state, c)
			if ok {
				s.state = next
				if s.digits++; s.Strict && (s.digits > strictDigits || next != inInt && next != inZero) {
					return i, false, s.fail()
				}
				break
			}
			if !numberMayEnd(s.state) {
				return i, false, s.fail()
			}
			s.ended()
			continue // the byte belongs to what follows the number
		default:
			if isSpace(c) {
				break
			}
			if !s.structure(c) {
				return i, false, s.fail()
			}
		}
		i++
	}
	return i, s.state == done, nil
}

// End reports whether the value is complete if nothing follows: true for a top-level number whose digits may stop here.
func (s *Scanner) End() bool {
	return s.err == nil && (s.state == done || s.depth == 0 && numberMayEnd(s.state))
}

// Depth tells how many objects and arrays are open.
func (s *Scanner) Depth() int { return s.depth }

// structure takes a byte outside strings, numbers and words.
func (s *Scanner) structure(c byte) bool {
	switch s.state {
	case wantValue, wantValueOrEnd:
		if c == ']' && s.state == wantValueOrEnd {
			s.pop()
			return true
		}
		return s.begin(c)
	case wantKey, wantKeyOrEnd:
		if c == '}' && s.state == wantKeyOrEnd {
			s.pop()
			return true
		}
		if c != '"' {
			return false
		}
		s.key, s.state = true, inString
	case wantColon:
		if c != ':' {
			return false
		}
		s.state = wantValue
	case wantComma:
		object := s.inObject()
		switch {
		case c == ',' && object:
			s.state = wantKey
		case c == ',':
			s.state = wantValue
		case c == '}' && object, c == ']' && !object:
			s.pop()
		default:
			return false
		}
	}
	return true
}

// begin takes the first byte of a value.
func (s *Scanner) begin(c byte) bool {
	switch {
	case s.Strict && s.depth == strictDepth:
		return false
	case c == '{':
		s.push(true)
		s.state = wantKeyOrEnd
	case c == '[':
		s.push(false)
		s.state = wantValueOrEnd
	case c == '"':
		s.state = inString
	case c == 't':
		s.state, s.rest = inWord, "true"[1:]
	case c == 'f':
		s.state, s.rest = inWord, "false"[1:]
	case c == 'n':
		s.state, s.rest = inWord, "null"[1:]
	case c == '-':
		s.state, s.digits = inMinus, 1
	case c == '0':
		s.state, s.digits = inZero, 1
	case c >= '1' && c <= '9':
		s.state, s.digits = inInt, 1
	default:
		return false
	}
	return true
}

func (s *Scanner) ended() {
	if s.state = wantComma; s.depth == 0 {
		s.state = done
	}
}

func (s *Scanner) fail() error {
	s.err = ErrSyntax
	return s.err
}

func (s *Scanner) push(object bool) {
	if s.depth>>6 == len(s.open) {
		s.open = append(s.open, 0)
	}
	bit := uint64(1) << (s.depth & 63)
	if object {
		s.open[s.depth>>6] |= bit
	} else {
		s.open[s.depth>>6] &^= bit
	}
	s.depth++
}

func (s *Scanner) pop() {
	s.depth--
	s.ended()
}

func (s *Scanner) inObject() bool {
	d := s.depth - 1
	return s.open[d>>6]>>(d&63)&1 == 1
}

// numberStep gives the state after c within a number, or false if c is no part of it.
func numberStep(s state, c byte) (state, bool) {
	digit := c >= '0' && c <= '9'
	switch {
	case s == inMinus && c == '0':
		return inZero, true
	case s == inMinus && digit, s == inInt && digit:
		return inInt, true
	case (s == inZero || s == inInt) && c == '.':
		return inPoint, true
	case (s == inPoint || s == inFraction) && digit:
		return inFraction, true
	case (s == inZero || s == inInt || s == inFraction) && (c == 'e' || c == 'E'):
		return inExp, true
	case s == inExp && (c == '+' || c == '-'):
		return inExpSign, true
	case (s == inExp || s == inExpSign || s == inExpDigits) && digit:
		return inExpDigits, true
	}
	return s, false
}

func numberMayEnd(s state) bool {
	return s == inZero || s == inInt || s == inFraction || s == inExpDigits
}

// printable says whether text is ASCII without control characters.
func printable(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// paired takes the unit of an escape, and says whether it stands where it may: the second half of a surrogate pair behind
// the first, and only there.
func (s *Scanner) paired() bool {
	second := s.unit>>10 == 0xDC00>>10
	ok := s.high == second
	s.high = s.unit>>10 == 0xD800>>10
	return ok
}

func hexValue(c byte) uint16 {
	if c <= '9' {
		return uint16(c - '0')
	}
	return uint16(c|0x20-'a') + 10
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
