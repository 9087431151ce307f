// Package relay takes spans from hooks and other adapters on this machine, puts
// the identity that the kernel vouches for in place of the claimed one, spools
// them, and delivers them to a Manager or any OTLP collector. It also counts
// what the spans tell for the report. It judges nothing and redacts nothing:
// that happened in the hook.
package relay

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"golang.org/x/sync/semaphore"
	"google.golang.org/protobuf/proto"

	"github.com/pinta-ai/pinta-agent/internal/local/serve"
	"github.com/pinta-ai/pinta-agent/internal/otlp"
	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// Identity is what the agent knows of a caller. Empty members are left out;
// OS defaults to this system's.
type Identity struct {
	DeviceID, Group, User, Host, OS string
}

// Options wire a Relay.
type Options struct {
	Spool *spool.Spool
	// Identity tells who a caller is: the name of the account, and the device.
	Identity func(serve.Peer) Identity
	// Collect says whether spans are kept (config: telemetry.enabled). Those that
	// aren't are counted all the same. Nil keeps them.
	Collect func() bool
	// OutputAction returns what the guard answered for an evaluation of a tool
	// output, "mask" or "withhold": a span doesn't carry it. Nil or "" counts a
	// denial of an output as withheld.
	OutputAction func(evaluationID string) string
	Clock        func() time.Time
	Log          *slog.Logger
}

// Relay takes spans. It is safe for concurrent use.
type Relay struct {
	o       Options
	memory  *semaphore.Weighted
	shares  shares
	tally   *tally
	answers ring

	requests, refused, claimed, rejected, discarded atomic.Uint64
	spreading                                       sync.Mutex
}

// New returns a Relay.
func New(o Options) *Relay {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Collect == nil {
		o.Collect = func() bool { return true }
	}
	if o.OutputAction == nil {
		o.OutputAction = func(string) string { return "" }
	}
	return &Relay{o: o, memory: semaphore.NewWeighted(inFlight), tally: newTally(o.OutputAction)}
}

// errTooLarge: a body that is small only because many spans share a resource.
var errTooLarge = fmt.Errorf("spans with their resources take over %d MiB: send fewer at once", maxSpans>>20)

// errTooMany: a body that is small only because what is in it is empty.
var errTooMany = fmt.Errorf("more than %d attributes and values: send fewer spans at once", otlp.MaxMessages)

// take spools the spans of a caller, each with its resource, so that each can be
// delivered, split off or dropped alone. It returns how many can never be taken
// and why; an error means that none or only some were, and (errTooLarge apart)
// the caller may come again with all of them.
func (r *Relay) take(p serve.Peer, in *tracepb.TracesData) (rejected int, why string, err error) {
	if size := spread(in); size > maxSpans {
		return 0, "", errTooLarge
	} else if size > maxSpans/64 { // one at a time has memory to spread in
		r.spreading.Lock()
		defer r.spreading.Unlock()
	}
	id := r.o.Identity(p)
	user := userKey(p)
	var (
		recs    []spool.Record
		singles []*tracepb.ResourceSpans
	)
	for _, rs := range in.GetResourceSpans() {
		claims := identify(rs, id)
		for _, ss := range rs.GetScopeSpans() {
			for _, span := range ss.GetSpans() {
				if !idOK(span.GetTraceId(), 16) || !idOK(span.GetSpanId(), 8) {
					rejected, why = rejected+1, "trace id or span id missing or malformed"
					continue
				}
				one := &tracepb.ResourceSpans{
					Resource: rs.Resource, SchemaUrl: rs.SchemaUrl,
					ScopeSpans: []*tracepb.ScopeSpans{{Scope: ss.Scope, SchemaUrl: ss.SchemaUrl, Spans: []*tracepb.Span{span}}},
				}
				b, err := proto.Marshal(one)
				if err != nil {
					rejected, why = rejected+1, "span can't be encoded: "+err.Error()
					continue
				}
				recs = append(recs, spool.Record{Key: spanKey(user, span), Data: b})
				singles = append(singles, one)
			}
		}
		r.claimed.Add(uint64(claims))
	}
	r.rejected.Add(uint64(rejected))
	if len(recs) == 0 {
		return rejected, why, nil
	}
	if !r.o.Collect() {
		r.discarded.Add(uint64(len(recs)))
	} else if err := r.o.Spool.Append(user, recs); err != nil {
		return rejected, why, err
	}
	now := r.o.Clock()
	for i, one := range singles {
		if !recs[i].Dup {
			r.tally.see(user, id.User, one, now)
		}
	}
	return rejected, why, nil
}

// spread is how many bytes the spans take when each has its resource and scope.
func spread(in *tracepb.TracesData) (n int) {
	for _, rs := range in.GetResourceSpans() {
		shared := proto.Size(rs.GetResource())
		for _, ss := range rs.GetScopeSpans() {
			shared := shared + proto.Size(ss.GetScope())
			for _, s := range ss.GetSpans() {
				n += shared + proto.Size(s)
			}
		}
	}
	return n
}

func idOK(id []byte, size int) bool {
	if len(id) != size {
		return false
	}
	for _, b := range id {
		if b != 0 {
			return true
		}
	}
	return false
}

// userKey names a user by what the kernel said, or by whose token a caller over
// TCP showed.
func userKey(p serve.Peer) string {
	switch {
	case p.SID != "":
		return p.SID
	case p.UID < 0 && p.User != "":
		return "user " + p.User
	}
	return "uid " + strconv.Itoa(p.UID)
}

// spanKey is the same for the same span of the same user, so that nobody can
// make another's span look taken.
func spanKey(user string, s *tracepb.Span) uint64 {
	h := sha256.New()
	h.Write([]byte(user))
	h.Write([]byte{0})
	h.Write(s.TraceId)
	h.Write(s.SpanId)
	return binary.BigEndian.Uint64(h.Sum(nil))
}

func osType(id Identity) string { return cmp.Or(id.OS, runtime.GOOS) }
