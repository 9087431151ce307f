// Command empty is the yardstick of the hook's bench: a Go program that reads
// its stdin and nothing else.
package main

import (
	"io"
	"os"
)

func main() { _, _ = io.Copy(io.Discard, os.Stdin) }
