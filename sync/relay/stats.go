package relay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/pinta-ai/pinta-agent/sync/spool"
)

// Stats is everything a Relay counted since New, and its spool's state.
type Stats struct {
	Counters  Counters          `json:"counters"`
	Decisions map[string]uint64 `json:"decisions"` // allow, review, deny
	FailOpen  map[string]uint64 `json:"failOpen"`  // timeout, refused, error
	Kinds     map[string]uint64 `json:"kinds"`     // of events, lower case
	Users     []User            `json:"users"`     // by name
	Clients   []Client          `json:"clients"`   // host versions seen, newest last
	GuardRTT  Quantiles         `json:"guardRttMs"`
	Answers   Quantiles         `json:"answerMs"` // how long taking a request took

	Requests  uint64      `json:"requests"`
	Refused   uint64      `json:"refused"`   // requests
	Rejected  uint64      `json:"rejected"`  // spans without usable ids
	Claimed   uint64      `json:"claimed"`   // false identities stripped
	Discarded uint64      `json:"discarded"` // spans not kept, telemetry being off
	Spool     spool.Stats `json:"spool"`
}

// Stats returns what there is now.
func (r *Relay) Stats() Stats {
	t := r.tally
	t.mu.Lock()
	s := Stats{
		Counters: t.c, Decisions: maps.Clone(t.decisions), FailOpen: maps.Clone(t.failOpen), Kinds: maps.Clone(t.kinds),
		Users: []User{}, Clients: []Client{},
	}
	for _, u := range t.users {
		s.Users = append(s.Users, *u)
	}
	for k, at := range t.clients {
		s.Clients = append(s.Clients, Client{k[0], k[1], at})
	}
	t.mu.Unlock()
	slices.SortFunc(s.Users, func(a, b User) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(s.Clients, func(a, b Client) int { return a.LastSeen.Compare(b.LastSeen) })
	s.GuardRTT, s.Answers = t.rtt.quantiles(), r.answers.quantiles()
	s.Requests, s.Refused, s.Rejected = r.requests.Load(), r.refused.Load(), r.rejected.Load()
	s.Claimed, s.Discarded = r.claimed.Load(), r.discarded.Load()
	s.Spool = r.o.Spool.Stats()
	return s
}
