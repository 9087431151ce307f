package manager

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

// BenchmarkEnrol is the Manager's part of an enrolment, TLS aside.
func BenchmarkEnrol(b *testing.B) {
	m, err := Open(Options{Dir: b.TempDir(), URL: "http://127.0.0.1:1", Policies: Guard{}})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	secret := newTestKey()
	token := tok{"01ARZ3NDEKTSV4RRFFQ69G5FAV", secret}
	err = m.update(b.Context(), func(tx store.Tx) error {
		return tokens.Put(tx, token.id, tokenRecord{Token: api.Token{ID: token.id, Group: DefaultGroup}, PublicKey: api.EncodeKey(public(secret))})
	})
	if err != nil {
		b.Fatal(err)
	}
	h := m.Handler()
	bodies := make(chan []byte, b.N)
	for range b.N {
		key := newTestKey()
		body, err := api.SignEnrol(&api.EnrolRequest{Schema: 1, TokenID: token.id, Reason: api.EnrolReasonFirst, Nonce: "n", Iat: m.opt.Now().Unix(), Aud: m.opt.URL,
			Device: api.EnrolDevice{PublicKey: api.EncodeKey(public(key)), Hostname: "h", Os: "linux", Arch: "amd64"}}, secret, key)
		if err != nil {
			b.Fatal(err)
		}
		bodies <- body
	}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, err := http.NewRequest("POST", api.Prefix+"/enroll", bytes.NewReader(<-bodies))
			if err != nil {
				b.Error(err)
				return
			}
			r.RemoteAddr = "192.0.2.1:5"
			r.Header.Set("Content-Type", "application/jose+json")
			w := &headerOnly{header: http.Header{}}
			h.ServeHTTP(w, r)
			if w.status != http.StatusCreated {
				b.Errorf("status %d", w.status)
				return
			}
		}
	})
}

// BenchmarkReport is the Manager's part of a report, TLS aside.
func BenchmarkReport(b *testing.B) {
	m, err := Open(Options{Dir: b.TempDir(), URL: "http://127.0.0.1:1", Policies: Guard{}})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	key := newTestKey()
	d := deviceRecord{Key: api.EncodeKey(public(key)), Device: api.Device{DeviceID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", Group: DefaultGroup, State: api.DeviceStateActive}}
	err = m.update(b.Context(), func(tx store.Tx) error { return devices.Put(tx, d.DeviceID, d) })
	if err != nil {
		b.Fatal(err)
	}
	caller := api.Caller{DeviceID: d.DeviceID, Audience: m.audience, Key: key}
	body := []byte(`{"configVersion":2,"state":"applied","agent":{"version":"1","os":"linux"},"users":[{"name":"ann","hook":"ok"}]}`)
	requests := make([]*http.Request, b.N)
	for i := range requests {
		r, err := http.NewRequest("POST", api.Prefix+"/device/report", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if err := caller.Authorize(r, body, m.opt.Now()); err != nil {
			b.Fatal(err)
		}
		requests[i] = r
	}
	h := m.Handler()
	b.ReportAllocs()
	b.ResetTimer()
	for _, r := range requests {
		w := &headerOnly{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatalf("status %d", w.status)
		}
	}
}
