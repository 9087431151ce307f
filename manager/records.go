package manager

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// DefaultGroup is there from the start.
const DefaultGroup = "default"

// The tables. Keys are ids unless told.
const (
	metas      = store.Table[serverRecord]("meta")
	keysets    = store.Table[keysRecord]("keys")
	counters   = store.Table[int64]("counters")
	tokens     = store.Table[tokenRecord]("tokens")
	groups     = store.Table[api.Group]("groups") // by name
	devices    = store.Table[deviceRecord]("devices")
	deviceKeys = store.Table[string]("device-keys") // device id by kid, also of keys that were rotated away
	reports    = store.Table[reportRecord]("reports")
	policies   = store.Table[policyRecord]("policies") // by ordinal(version)
	configs    = store.Table[configRecord]("configs")  // by group
	apiKeys    = store.Table[apiKeyRecord]("api-keys")
	appeals    = store.Table[api.Appeal]("appeals")
	audits     = store.Table[api.AuditEntry]("audit") // by ordinal(seq)
	events     = store.Table[api.Event]("events")
	batches    = store.Table[time.Time]("batches")  // by device/batch
	batchTimes = store.Table[string]("batch-times") // key in batches, by an id in the order of time
	outbox     = store.Table[[]byte]("outbox")
)

const (
	metaServer     = "server"
	keysCurrent    = "current"
	counterVersion = "policy-version"
	counterEvents  = "event-bytes"
	counterOutbox  = "outbox-bytes"

	topicConfig = "config"
	topicEvents = "events"
	topicOutbox = "outbox"
)

// ordinal makes numbers sort as they count.
func ordinal(n int64) string { return fmt.Sprintf("%016x", n) }

type serverRecord struct {
	Audience string          `json:"audience"`
	URLs     map[string]bool `json:"urls"`
}

type keysRecord struct {
	Version   int64     `json:"version"`
	Root      string    `json:"root"` // fingerprint
	Active    string    `json:"active"`
	Keys      []api.Key `json:"keys"`
	Statement string    `json:"statement"`
}

type tokenRecord struct {
	api.Token
	PublicKey string `json:"publicKey"`
}

// state is what the token is worth now.
func (t *tokenRecord) state(now time.Time) api.TokenState {
	switch {
	case !t.RevokedAt.IsZero():
		return api.TokenStateRevoked
	case !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt):
		return api.TokenStateExpired
	case t.Uses > 0 && t.Used >= t.Uses:
		return api.TokenStateExhausted
	}
	return api.TokenStateActive
}

type deviceRecord struct {
	api.Device
	Key        string        `json:"key"`                  // public key in force
	Candidate  string        `json:"candidate,omitempty"`  // offered, not yet used
	Boots      []boot        `json:"boots,omitempty"`      // newest last
	Retirement string        `json:"retirement,omitempty"` // its id
	MovedAt    time.Time     `json:"movedAt,omitzero"`     // to Group
	Orders     []orderRecord `json:"orders,omitempty"`
}

type boot struct {
	ID    string    `json:"id"`
	First time.Time `json:"first"`
}

type orderRecord struct {
	api.ActionState
	JWS string `json:"jws"`
}

type reportRecord struct {
	LastSeen time.Time  `json:"lastSeen"`
	Report   api.Report `json:"report"`
}

type policyRecord struct {
	api.PolicyVersion
	Guard     json.RawMessage      `json:"guard"`
	Telemetry *api.TelemetryConfig `json:"telemetry,omitempty"`
}

type configRecord struct {
	Group    string    `json:"group"`
	Version  int64     `json:"version"`
	ETag     string    `json:"etag"`
	JWS      string    `json:"jws"`
	Key      string    `json:"key"` // kid
	Expires  time.Time `json:"expires"`
	Renew    time.Time `json:"renew"`
	Override string    `json:"override,omitempty"`
	OverEnds time.Time `json:"overEnds,omitzero"`
}

type apiKeyRecord struct {
	api.APIKey
	Hash string `json:"hash"` // SHA-256 of the secret, hex
}

// add changes a counter and returns its new value.
func add(tx store.Tx, counter string, n int64) (int64, error) {
	v, err := orZero(counters.Get(tx, counter))
	if err != nil {
		return 0, err
	}
	v += n
	return v, counters.Put(tx, counter, v)
}
