package trace

import "strings"

// ulid is a ULID: 48 bits of milliseconds and 80 random bits. Its text is not
// read and written by oklog/ulid, whose package seeds a random source at
// start-up and links database/sql/driver, bufio and fmt: about twelve page
// faults of every run, which is 2-3 % of an empty program. The library is the
// test's oracle.
type ulid [16]byte

// crockford are the digits of a ULID's text, five bits each.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const textLen = 26

// String is the canonical text: 26 digits, the first of two bits only.
func (u ulid) String() string {
	var b [textLen]byte
	// 130 bits from the right; the text has two bits more than the id.
	acc, bits, at := uint(0), 0, len(u)
	for i := textLen - 1; i >= 0; i-- {
		if bits < 5 && at > 0 {
			at--
			acc |= uint(u[at]) << bits
			bits += 8
		}
		b[i] = crockford[acc&31]
		acc >>= 5
		bits -= 5
	}
	return string(b[:])
}

// parseULID reads 26 digits in either case; false for anything else.
func parseULID(s string) (u ulid, ok bool) {
	if len(s) != textLen || s[0] > '7' {
		return u, false
	}
	acc, bits, at := uint(0), 0, len(u)
	for i := textLen - 1; i >= 0; i-- {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		digit := strings.IndexByte(crockford, c)
		if digit < 0 {
			return ulid{}, false
		}
		acc |= uint(digit) << bits
		if bits += 5; bits >= 8 && at > 0 {
			at--
			u[at] = byte(acc)
			acc >>= 8
			bits -= 8
		}
	}
	return u, true
}
