# make bench-hook [BASELINE=PATH] measures whole runs of the hook against an
# empty Go program, interleaved; BASELINE pairs another hook with it. As root on
# Linux also the user's run that yields to the machine's, in a private /etc.
.PHONY: bench-hook
bench-hook:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && export CGO_ENABLED=0 && \
	go build -trimpath -ldflags '-s -w' -o "$$dir/hook" ./cmd/pinta-hook && \
	go build -trimpath -ldflags '-s -w' -o "$$dir/empty" ./hook/bench/empty && \
	go build -trimpath -o "$$dir/bench" ./hook/bench && \
	"$$dir/bench" -hook "$$dir/hook" -empty "$$dir/empty" -policy installer/testdata/90-pinta.json $(if $(BASELINE),-baseline "$(BASELINE)")

# make soak [FOR=10m] runs Manager, agents and hooks under mixed load and faults
# and counts spans: none may be lost, none twice at the Manager.
.PHONY: soak
soak:
	go run ./e2e/soak -for $(or $(FOR),10m)

# make memory measures an agent at rest, with its detectors loaded, and with a
# full spool.
.PHONY: memory
memory:
	go run ./e2e/soak -memory
