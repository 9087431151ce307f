package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestValue(t *testing.T) {
	for _, c := range []struct {
		name, in string
		end      int
		err      error
	}{
		{"object", ` {"a":[1,-0.5e+3,true,false,null,"x\u0041"]} tail`, 44, nil},
		{"what follows is left alone", `{}{`, 2, nil},
		{"raw control characters in strings", "\"a\nb\x00\"", 6, nil},
		{"bytes that are no UTF-8", "\"\xff\"", 3, nil},
		{"number at the end", "12", 2, nil},
		{"number before a blank", "12 ", 2, nil},
		{"huge exponent", "1e400", 5, nil},
		{"empty", "", 0, ErrIncomplete},
		{"blank", "  ", 2, ErrIncomplete},
		{"open object", `{"a":1`, 6, ErrIncomplete},
		{"open string", `"a\`, 3, ErrIncomplete},
		{"minus alone", "-", 1, ErrIncomplete},
		{"half a number", "1e", 2, ErrIncomplete},
		{"trailing comma", "[1,]", 3, ErrSyntax},
		{"comma in object", `{"a":1,}`, 7, ErrSyntax},
		{"wrong bracket", "[1}", 2, ErrSyntax},
		{"leading zero", "[01]", 2, ErrSyntax},
		{"bad escape", `"\x"`, 2, ErrSyntax},
		{"bad hex", `"\u00g0"`, 5, ErrSyntax},
		{"bad word", "nul!", 3, ErrSyntax},
		{"plus", "+1", 0, ErrSyntax},
		{"key is no string", "{1:2}", 1, ErrSyntax},
		{"BOM is not skipped here", "\ufeff{}", 0, ErrSyntax},
	} {
		t.Run(c.name, func(t *testing.T) {
			end, err := Value([]byte(c.in), 0)
			if end != c.end || !errors.Is(err, c.err) {
				t.Errorf("Value(%q) = %d, %v; want %d, %v", c.in, end, err, c.end, c.err)
			}
		})
	}
}

func TestScannerTakesPieces(t *testing.T) {
	in := ` {"a":[1,-0.5e+3,true,false,null,"x\u0041\\"],"b":{}} rest`
	want := strings.Index(in, " rest")
	for size := 1; size < len(in); size++ {
		var s Scanner
		total, complete := 0, false
		for i := 0; i < len(in) && !complete; i += size {
			n, ok, err := s.Feed([]byte(in[i:min(i+size, len(in))]))
			if err != nil {
				t.Fatal(err)
			}
			total, complete = total+n, ok
		}
		if !complete || total != want {
			t.Errorf("pieces of %d: end %d, complete %v; want %d", size, total, complete, want)
		}
	}
}

// TestStrict: what not every reader takes is an error wherever pieces end, and
// only for a strict scanner.
func TestStrict(t *testing.T) {
	for text, sound := range map[string]bool{
		`{"a":"x","b":[-1,0,999999999999999999]}`:         true,
		`"\ud83d\ude00 \uD83D\uDE00 \u00e9"`:              true,
		strings.Repeat("[", 64) + strings.Repeat("]", 64): true,
		strings.Repeat("[", 65) + strings.Repeat("]", 65): false,
		`"\ud83d"`:                            false,
		`"\ud83dx"`:                           false,
		`"\ud83d\n"`:                          false,
		`"\ud83d\ud83d\ude00"`:                false,
		`"\uDe00"`:                            false,
		`{"\udbff":1}`:                        false,
		`"\ud83d\ude00\udfff"`:                false,
		"\"a\x1f\"":                           false,
		"\"a\xff\"":                           false,
		"{\"a\":[\"\u00e9\"]}":                false,
		`[1e400]`:                             false,
		`[1.5]`:                               false,
		`[0.0]`:                               false,
		`[9999999999999999999]`:               false,
		`[-` + strings.Repeat("9", 400) + `]`: false,
	} {
		for size := 1; size <= len(text); size++ {
			for _, strict := range []bool{true, false} {
				s, rest, complete := Scanner{Strict: strict}, []byte(text), false
				var err error
				for len(rest) > 0 && err == nil {
					n := min(size, len(rest))
					_, complete, err = s.Feed(rest[:n])
					rest = rest[n:]
				}
				if got := complete && err == nil; got != (sound || !strict) {
					t.Fatalf("%s in pieces of %d, strict %v: %v, %v", text, size, strict, got, err)
				}
			}
		}
	}
}

func TestMembers(t *testing.T) {
	got, err := Members([]byte(` { "a" : 1 , "\u0061":{"x":[1,"}"]}, "b":"," } `))
	if err != nil {
		t.Fatal(err)
	}
	want := []Member{{"a", []byte(`"a"`), []byte(`1`)}, {"a", []byte(`"\u0061"`), []byte(`{"x":[1,"}"]}`)}, {"b", []byte(`"b"`), []byte(`","`)}}
	if !slices.EqualFunc(got, want, func(a, b Member) bool {
		return a.Key == b.Key && bytes.Equal(a.RawKey, b.RawKey) && bytes.Equal(a.Value, b.Value)
	}) {
		t.Errorf("got %q", got)
	}
	for _, in := range []string{"", "[]", "{", "{} x", `{"a"}`, "null"} {
		if m, err := Members([]byte(in)); err == nil {
			t.Errorf("Members(%q) = %v, want an error", in, m)
		}
	}
	if m, err := Members([]byte("{ }")); err != nil || len(m) != 0 {
		t.Errorf("empty object: %v, %v", m, err)
	}
}

func TestElements(t *testing.T) {
	got, err := Elements([]byte(`[1 ,[2,[3]],"]" ]`))
	if err != nil || len(got) != 3 || string(got[1]) != "[2,[3]]" || string(got[2]) != `"]"` {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := Elements([]byte("{}")); err == nil {
		t.Errorf("an object gave %q", got)
	}
}

func TestUnquote(t *testing.T) {
	for in, want := range map[string]string{
		`"a"`: "a", ` "" `: "", `"\ud83d\ude00"`: "😀", `"\ud83d"`: "\ufffd", `"\ude00\ud83d"`: "\ufffd\ufffd",
		`"\ud83dA"`: "\ufffdA", `"\ud83d\u0041"`: "\ufffdA", "\"a\xffb\"": "a\ufffdb", `"\"\\\/\b\f\n\r\t\u0000"`: "\"\\/\b\f\n\r\t\x00",
	} {
		if got, ok := Unquote([]byte(in)); !ok || got != want {
			t.Errorf("Unquote(%s) = %q, %v; want %q", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "1", `"`, `"a`, `"a" x`, `"\x"`, `"\u12"`, `"\"`} {
		if got, ok := Unquote([]byte(in)); ok {
			t.Errorf("Unquote(%s) = %q, want false", in, got)
		}
	}
}

func TestAppendQuote(t *testing.T) {
	got := string(AppendQuote([]byte("x"), "a\"\\\n\x01<&>\u2028\xff€"))
	if want := `x"a\"\\\n\u0001<&>` + "\u2028\ufffd€\""; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAppendCompact(t *testing.T) {
	in := " { \"a b\" : [ 1.50 , 12345678901234567890 , \"x\\u0041 \\ud800 \\ud83d\\ude00\n\xff\" ] } "
	want := `{"a b":[1.50,12345678901234567890,"x\u0041 ` + "\ufffd" + ` \ud83d\ude00\n` + "\ufffd" + `"]}`
	if got := string(AppendCompact(nil, []byte(in))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestDepthAndKind(t *testing.T) {
	deep := strings.Repeat("[", 1000) + strings.Repeat("]", 1000)
	if !Depth([]byte(deep), 1000) || Depth([]byte("["+deep+"]"), 1000) || !Depth([]byte(`"[[["`), 0) {
		t.Error("depth is miscounted")
	}
	for in, want := range map[string]byte{" {": '{', "[": '[', `"`: '"', "true": 't', "false": 't', "null": 'n', "-1": '0', "7": '0', "": 0, "x": 0} {
		if got := Kind([]byte(in)); got != want {
			t.Errorf("Kind(%q) = %q, want %q", in, got, want)
		}
	}
}

// A quadratic or recursive walk would not end in reasonable time, or would overflow the stack.
func TestHostileNesting(t *testing.T) {
	time := func(n int) time.Duration {
		in := []byte(strings.Repeat(`{"a":[`, n) + "1" + strings.Repeat("]}", n))
		start := time.Now()
		if !Valid(in) || Depth(in, 1000) {
			t.Fatal("misjudged")
		}
		if m, err := Members(in); err != nil || len(m) != 1 {
			t.Fatal(err)
		}
		return time.Since(start)
	}
	time(1000)
	small, large := time(100_000), time(400_000)
	for range 8 { // the best of several: a busy machine spoils some
		if large < 8*small {
			break
		}
		small, large = min(small, time(100_000)), min(large, time(400_000))
	}
	t.Logf("4 times the input took %.1f times as long", float64(large)/float64(small))
	if large > 12*small {
		t.Errorf("not linear: %v, then %v for 4 times the input", small, large)
	}
}

// TestStringEndAnywhere puts what ends or escapes at every offset of a string that is longer than a window.
func TestStringEndAnywhere(t *testing.T) {
	const size = 600
	for at := 1; at < size; at++ {
		data := []byte(`"` + strings.Repeat("a", size) + `"tail"`)
		if data[at] = '"'; stringEnd(data, 0) != at+1 {
			t.Fatalf("a quote at %d: end %d", at, stringEnd(data, 0))
		}
		if data[at-1] = '\\'; at > 1 && stringEnd(data, 0) != size+2 {
			t.Fatalf("an escaped quote at %d: end %d", at, stringEnd(data, 0))
		}
		if got, ok := Unquote(data[:size+2]); at > 1 && (!ok || got != strings.Repeat("a", at-2)+`"`+strings.Repeat("a", size-at)) {
			t.Fatalf("an escaped quote at %d: %q", at, got)
		}
		if cut := data[:at]; at > 1 && stringEnd(cut, 0) != len(cut) {
			t.Fatalf("a backslash last at %d: end %d of %d", at-1, stringEnd(cut, 0), len(cut))
		}
		bad := `"` + strings.Repeat("a", at) + "\xff\\n\xe2\x82" + `"`
		if got, ok := Unquote([]byte(bad)); !ok || got != strings.Repeat("a", at)+"\uFFFD\n\uFFFD\uFFFD" {
			t.Fatalf("bytes that are no UTF-8 at %d: %q", at, got)
		}
	}
}

func FuzzRawJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,true,null,"x\u0041\ud800"],"a":{}}`, "[1,2]", `"\ud83d\ude00"`, "-1e400", "{\"a\":\"\n\"}", "[[[[", "\"\xff\"", " \t{ } x", "[]]", "1 2"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		std := json.Valid(in)
		if std && !Valid(in) {
			t.Fatalf("encoding/json accepts %q", in)
		}
		if !Valid(in) {
			return
		}
		compact := AppendCompact(nil, in)
		if !json.Valid(compact) || !utf8.Valid(compact) {
			t.Fatalf("compact form of %q is not JSON: %q", in, compact)
		}
		if !std {
			return // raw control characters: accepted here only
		}
		checkMembers(t, in)
		if s, ok := Unquote(in); ok {
			var want string
			if json.Unmarshal(in, &want) != nil || s != want {
				t.Fatalf("Unquote(%q) = %q, want %q", in, s, want)
			}
			if back, ok := Unquote(AppendQuote(nil, s)); !ok || back != s {
				t.Fatalf("quoting %q gives %q back", s, back)
			}
		}
	})
}

func checkMembers(t *testing.T, in []byte) {
	dec := json.NewDecoder(bytes.NewReader(in))
	switch Kind(in) {
	case '{':
		got, err := Members(in)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = dec.Token()
		for _, m := range got {
			key, err := dec.Token()
			var value json.RawMessage
			if err != nil || key != m.Key || dec.Decode(&value) != nil || !bytes.Equal(value, m.Value) {
				t.Fatalf("member %q of %q, want %v: %q", m, in, key, value)
			}
		}
	case '[':
		got, err := Elements(in)
		var want []json.RawMessage
		if err != nil || json.Unmarshal(in, &want) != nil || len(got) != len(want) {
			t.Fatalf("Elements(%q) = %q, %v", in, got, err)
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("element %d of %q: %q, want %q", i, in, got[i], want[i])
			}
		}
	}
	if dec.More() && Kind(in) == '{' {
		t.Fatalf("members of %q are missing", in)
	}
}
