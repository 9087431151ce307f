// Package version holds the one version that every binary, span and package
// carries. It is not a place for host or protocol versions.
package version

// Version is the release, without a leading v. Release builds set it by
//
//	-ldflags "-X github.com/pinta-ai/pinta-agent/internal/version.Version=1.2.3"
var Version = "0.1.0"
