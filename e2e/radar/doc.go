// Command radar looks at how versions of the Copilot CLI treat hooks, and at
// what changed since they were last looked at:
//
//	go run ./e2e/radar VERSION…
//
// For each version it installs the CLI by npm, plays the scenarios of
// e2e/copilot against the built programs, tries what the host makes of exit
// codes, time limits and outputs, captures every payload, and compares all that
// with what was recorded for the version, or for the nearest one below. Then it
// records the result in e2e/radar/testdata and writes docs/hosts.md. It must run
// inside a checkout, with Go, npm and git; as root it also tries machine
// policies, in a private copy of the machine.
package main
