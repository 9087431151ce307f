package api

import (
	"strings"
	"testing"
)

func FuzzVerify(f *testing.F) {
	signing := key('s')
	good, _ := Sign(config(), signing)
	f.Add(good)
	f.Add("a.b.c")
	f.Add(`eyJhbGciOiJub25lIn0.e30.`)
	keys := KeysOf(pub(signing))
	f.Fuzz(func(t *testing.T, doc string) {
		var c GuardConfig
		if Verify(doc, &c, keys) == nil && doc[:strings.LastIndexByte(doc, '.')] != good[:strings.LastIndexByte(good, '.')] {
			t.Fatalf("taken: %q", doc) // only what was signed holds
		}
		_ = VerifyRoot(doc, &KeyStatement{}, Thumbprint(pub(signing)))
	})
}

func FuzzParseCall(f *testing.F) {
	s, _ := signCompact(KindDevice, []byte(`{"iss":"d","aud":"a","iat":1,"exp":100,"jti":"0123456789abcdef","req":"x"}`), MaxJWT, key('d'), false)
	f.Add(s)
	f.Fuzz(func(t *testing.T, jwt string) {
		if c, err := ParseCall(jwt); err == nil && !c.Claims.inBounds() {
			t.Fatal("out of bounds")
		}
	})
}

func FuzzParseEnrol(f *testing.F) {
	body, _ := SignEnrol(enrolment(), key('t'), key('d'))
	f.Add(body)
	f.Add([]byte(`{"payload":"e30","signatures":[{"protected":"e30","signature":"AA"},{"header":{"alg":"none"},"signature":"AA"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if e, err := ParseEnrol(body); err == nil {
			_ = e.Verify(pub(key('t')))
		}
	})
}

func FuzzStrict(f *testing.F) {
	f.Add([]byte(`{"schema":1,"id":"a","deviceId":"d","aud":"u","kind":"resync","issuedAt":"2026-01-01T00:00:00Z","expiresAt":"2026-01-01T00:00:00Z"}`))
	f.Add([]byte(`{"a":{"a":[[{}]]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_ = Strict(data, &Action{})
	})
}
