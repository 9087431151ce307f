package installer

import (
	"bytes"
	"encoding/binary"
)

// procArgs reads what macOS's kern.procargs2 says: the number of arguments, the
// executable's path, padding, then the arguments, each ended by a NUL.
func procArgs(raw []byte) (argv []string, ok bool) {
	if len(raw) < 4 {
		return nil, false
	}
	n := int(int32(binary.NativeEndian.Uint32(raw)))
	_, rest, found := bytes.Cut(raw[4:], []byte{0})
	rest = bytes.TrimLeft(rest, "\x00")
	for found && len(argv) < min(n, 16) { // the program, and what an interpreter runs
		var arg []byte
		if arg, rest, found = bytes.Cut(rest, []byte{0}); found {
			argv = append(argv, string(arg))
		}
	}
	return argv, len(argv) > 0
}
