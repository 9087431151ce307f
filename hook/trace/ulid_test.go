package trace

import (
	"testing"

	oklog "github.com/oklog/ulid/v2"
)

func FuzzULID(f *testing.F) {
	f.Add("01ARZ3NDEKTSV4RRFFQ69G5FAV", []byte("0123456789abcdef"))
	f.Add("7zzzzzzzzzzzzzzzzzzzzzzzzz", []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Add("80000000000000000000000000", []byte{})
	f.Add("01ARZ3NDEKTSV4RRFFQ69G5FAU", []byte{1})
	f.Fuzz(func(t *testing.T, s string, raw []byte) {
		got, ok := parseULID(s)
		want, err := oklog.ParseStrict(s)
		if ok != (err == nil) || ok && oklog.ULID(got) != want {
			t.Errorf("%q: %v %v, want %v %v", s, got, ok, want, err)
		}
		var u ulid
		copy(u[:], raw)
		if text := u.String(); text != oklog.ULID(u).String() {
			t.Errorf("%x: %s", raw, text)
		} else if back, ok := parseULID(text); !ok || back != u {
			t.Errorf("%s doesn't come back", text)
		}
	})
}
