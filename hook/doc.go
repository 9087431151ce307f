// Package hook is one run of the hook binary: it reads one event from the
// host's stdin, asks the guard, prints a denial if there is one, and reports
// the event. It is not a service and keeps nothing in memory between runs.
//
// The flow, which run.go holds from top to bottom in this order (hook.md 3):
//
//	stdin ── event ──┬─ trace, model ── span ── guard question ── verdict
//	                 │                   │                           │
//	env file ────────┘                   │        denial → stdout ◀──┤
//	                                     ▼                           │
//	                   redaction, truncation, guard attributes ◀─────┘
//	                                     │
//	                    denied: queue ◀──┴──▶ else: flush the queue, send
//
// The packages in it:
//
//   - config finds settings in the environment and in pinta-copilot.env;
//   - event reads and classifies the payload; rawjson walks JSON for all;
//   - trace remembers a turn's trace id, model reads transcripts;
//   - span builds, redacts (package redact), cuts and writes the OTLP span;
//   - verdict asks the guard through post, the HTTP client, and words denials;
//     remote adds other machines, TLS and proxies to post;
//   - queue keeps undelivered spans.
//
// What holds whatever happens (hook.md 1): the exit status is 0; stdout is
// empty or one JSON line, written before any telemetry work; after a denial no
// collector is contacted; a fault never blocks a tool and never hides a denial
// that was read. fate.go keeps these promises: the watchdog, the recovery of
// panics and the one write to stdout live there.
//
// Speed is the product: a hook runs for every event of every session, so the
// package keeps to what start-up can afford. Measured in processor time against
// an empty Go program (medians of interleaved runs, make bench-hook repeats the
// comparison by the clock): crypto/tls linked and not used 1.47; a run without
// endpoints 1.39; with guard and collector on this machine 1.70; the first
// version, with a goroutine and a timer for each file, 1.84 and 2.12.
package hook
