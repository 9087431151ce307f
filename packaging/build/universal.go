package build

import (
	"debug/macho"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// fatAlign is the alignment of slices, as lipo chooses it for arm64: 16 KiB
// pages.
const fatAlign = 14

// Universal joins Mach-O programs of several architectures into one (the
// format of lipo: a big-endian header, then the slices on page borders).
func Universal(to string, from ...string) error {
	header := binary.BigEndian.AppendUint32(nil, macho.MagicFat)
	header = binary.BigEndian.AppendUint32(header, uint32(len(from)))
	var body []byte
	start := 1 << fatAlign
	for _, name := range from {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := macho.Open(name)
		if err != nil {
			return fmt.Errorf("%s is no Mach-O program: %w", name, err)
		}
		cpu, sub := f.Cpu, f.SubCpu
		if err := f.Close(); err != nil {
			return err
		}
		for len(body)%(1<<fatAlign) != 0 {
			body = append(body, 0)
		}
		for _, field := range []uint32{uint32(cpu), sub, uint32(start + len(body)), uint32(len(data)), fatAlign} {
			header = binary.BigEndian.AppendUint32(header, field)
		}
		body = append(body, data...)
	}
	out := append(header, make([]byte, start-len(header))...)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, append(out, body...), 0o755) //nolint:gosec // a program
}
