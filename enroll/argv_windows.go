package enroll

import (
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

// overwrite masks an argument in the command line of the process's environment
// block, where Task Manager and WMI read it. The copy that an audit of process
// creation took when the process started is out of reach: prefer "-".
func overwrite(arg string) {
	line := windows.RtlGetCurrentPeb().ProcessParameters.CommandLine
	text := unsafe.Slice(line.Buffer, line.Length/2)
	want := utf16.Encode([]rune(arg))
	for i := 0; i+len(want) <= len(text); i++ {
		if string(utf16.Decode(text[i:i+len(want)])) != arg {
			continue
		}
		for j := range want {
			text[i+j] = '*'
		}
	}
}
