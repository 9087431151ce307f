package detect

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPrefixed: tried where its literals are, an expression finds what it finds
// on windows, in texts full of candidates, cut and glued at random.
func TestPrefixed(t *testing.T) {
	list, _, err := loadGitleaks()
	if err != nil {
		t.Fatal(err)
	}
	prefixed := 0
	for _, d := range list {
		if d.pattern.prefixed != nil {
			prefixed++
		}
		d.pattern.prefixed = nil
	}
	if prefixed < 80 {
		t.Errorf("only %d expressions have the form", prefixed)
	}
	plain, quick := newSet(list), gitleaksOnly()
	all := nearSecrets()
	maps.Copy(all, texts(t))
	names := slices.Sorted(maps.Keys(all))
	r := rand.New(rand.NewPCG(10, 11))
	piece := func(name string, n int) string {
		at := r.IntN(len(all[name]) - n)
		return all[name][at : at+n]
	}
	found := 0
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			for range 6 {
				text := piece(name, 12<<10)
				for range 200 { // a few hundred bytes of others, without seams
					at := r.IntN(len(text))
					text = text[:at] + piece(names[r.IntN(len(names))], 1+r.IntN(60)) + text[at:]
				}
				want, err := plain.Scan(context.Background(), text, plain.All())
				if err != nil {
					t.Fatal(err)
				}
				got, _ := quick.Scan(context.Background(), text, quick.All())
				found += len(want)
				if !slices.Equal(got, want) {
					t.Errorf("%d findings, want %d", len(got), len(want))
					for i := range max(len(got), len(want)) {
						if i >= len(got) || i >= len(want) || got[i] != want[i] {
							t.Fatalf("the first that differs: got %+v, want %+v", got[min(i, len(got)-1)], want[min(i, len(want)-1)])
						}
					}
				}
			}
		})
	}
	t.Logf("%d findings", found)
}
