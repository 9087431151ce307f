//go:build !linux

package safefile

import "os"

func swap(from, to string) error { return persist(func() error { return os.Rename(from, to) }) }
