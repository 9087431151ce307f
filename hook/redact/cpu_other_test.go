//go:build !unix

package redact

import "time"

var started = time.Now()

func clock() time.Duration { return time.Since(started) }
