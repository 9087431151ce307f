//go:build unix

package enroll

import "unsafe"

// overwrite masks an argument where the kernel reads it: on Linux and macOS the
// runtime's os.Args are views of the very memory that the kernel put argv into,
// which is the process's own and writable.
func overwrite(arg string) {
	mask := unsafe.Slice(unsafe.StringData(arg), len(arg))
	for i := range mask {
		mask[i] = '*'
	}
}
