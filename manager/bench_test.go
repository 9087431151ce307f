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
