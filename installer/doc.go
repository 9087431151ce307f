// Package installer keeps the hook registered: it puts the hook binary, the
// hook files, the env files and the machine policy file where the contract
// (installer.md) wants them, and notices and repairs drift. Install, repair,
// uninstall and doctor are four uses of one engine that converges items over a
// [System]; a plan is the same run over a system that only records.
//
// It isn't the judge of events (package guard), delivers nothing (package
// sync), and never opens a path below another user's home: a worker process
// that runs as that user does (package installer/users).
package installer
