package detect

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestFindInJSON: a secret that is found in a text is found in the text as JSON
// and as JSON in JSON, whatever stands before it, and as it is written there.
func TestFindInJSON(t *testing.T) {
	long := strings.Repeat("aB3dE6fG", 12)
	s := Standard()
	find := func(text string) (categories, values []string) {
		found, err := s.Find(context.Background(), text, s.All())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if text[f.Start:f.End] != f.Secret {
				t.Errorf("%q: offsets %d to %d hold %q, the secret is %q", text, f.Start, f.End, text[f.Start:f.End], f.Secret)
			}
			if !slices.Contains(categories, f.Category) {
				categories = append(categories, f.Category)
			}
			values = append(values, f.Secret)
		}
		slices.Sort(categories)
		return categories, values
	}
	for _, secret := range []string{
		"4111 1111 1111 1111", "DE89370400440532013000", "AKIAQ3EGRIVMTFXW7ZC5", "sk-ant-api03-" + long[:80], "xoxb-1234567890-" + long[:12],
		"sk_live_" + long[:24], "API_KEY=abcdef12", "API_KEY='a b c'", `"password": "q8Zt5Lw0Vr2Xc7Ny4Bm1"`, "Bearer " + long[:20], "postgres://app:s3cr3t@db/x",
		"aws_secret_access_key = " + strings.Repeat("aB3/E6fG", 5), "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n-----END RSA PRIVATE KEY-----",
	} {
		for _, between := range []string{"\n", "\t", "\r\n", "\"", "; ", "é\n"} {
			plain := "first" + between + secret + between + "last"
			once, _ := json.Marshal(map[string]string{"log": plain})
			twice, _ := json.Marshal(string(once))
			slashes := strings.ReplaceAll(string(once), "/", `\/`)
			want, _ := find(plain)
			if len(want) == 0 {
				t.Errorf("%q: nothing is found", plain)
			}
			for _, text := range []string{string(once), string(twice), slashes} {
				got, _ := find(text)
				for _, w := range want {
					if !slices.Contains(got, w) {
						t.Errorf("%s: found %v, in plain text %v", text, got, want)
					}
				}
			}
		}
	}
	if _, values := find(`{"log":"x\nAKIAQ3EGRIVMTFXW7ZC5\ny"}`); !slices.Contains(values, "AKIAQ3EGRIVMTFXW7ZC5") {
		t.Errorf("values %q", values)
	}
}

func FuzzUnescape(f *testing.F) {
	for _, s := range []string{`a\nb`, `\\\\n\"\u0041\/`, `\`, `\u00`, `\u00e9\x`, "plain", `\\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		plain := unescape(text)
		offsets, all := make([]int, len(plain)+1), make([]*int, len(plain)+1)
		for i := range offsets {
			offsets[i], all[i] = i, &offsets[i]
		}
		origins(text, all)
		for i, o := range offsets {
			if i == 0 && o != 0 || i > 0 && o <= offsets[i-1] || i == len(plain) && o != len(text) {
				t.Fatalf("%q: offsets come from %d", text, offsets)
			}
			if i < len(plain) && text[o] != '\\' && text[o] != plain[i] {
				t.Fatalf("%q: %q at %d comes from %q at %d", text, plain[i], i, text[o], o)
			}
		}
	})
}
