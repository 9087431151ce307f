package literal

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
)

func hits(words []string, text string) []string {
	var got []string
	New(words).Scan(text, func(w, at int) bool {
		got = append(got, fmt.Sprintf("%s@%d", words[w], at))
		return true
	})
	slices.Sort(got)
	return got
}

// naive is what Scan must equal.
func naive(words []string, text string) []string {
	var got []string
	fold := func(s string) string {
		b := []byte(s)
		for i := range b {
			b[i] = Fold(b[i])
		}
		return string(b)
	}
	for _, w := range words {
		for i := 0; w != "" && i+len(w) <= len(text); i++ {
			if fold(text[i:i+len(w)]) == fold(w) {
				got = append(got, fmt.Sprintf("%s@%d", w, i))
			}
		}
	}
	slices.Sort(got)
	return got
}

func TestScan(t *testing.T) {
	for name, c := range map[string]struct {
		words []string
		text  string
	}{
		"overlapping":      {[]string{"he", "she", "his", "hers"}, "ushers and his"},
		"suffix chains":    {[]string{"a", "aa", "aaa", "baa"}, "aaabaaa"},
		"letter case":      {[]string{"AKIA", "key"}, "akIa KEY kEy"},
		"same word twice":  {[]string{"rm", "rm"}, "rm -rf"},
		"non-ASCII":        {[]string{"é", "naïve"}, "naïve café É"},
		"empty":            {[]string{"", "x"}, ""},
		"no word":          {nil, "text"},
		"word is the text": {[]string{"text"}, "text"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := hits(c.words, c.text), naive(c.words, c.text); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestScanStops(t *testing.T) {
	n := 0
	New([]string{"a"}).Scan("aaaa", func(int, int) bool { n++; return n < 2 })
	if n != 2 {
		t.Errorf("scan went on after false: %d calls", n)
	}
}

func FuzzScan(f *testing.F) {
	f.Add("he she his hers", "ushers")
	f.Add("a aa aaa", "aaaa")
	f.Fuzz(func(t *testing.T, list, text string) {
		if len(list) > 200 || len(text) > 2000 {
			return
		}
		words := strings.Split(list, " ")
		if got, want := hits(words, text), naive(words, text); !slices.Equal(got, want) {
			t.Errorf("words %q text %q: got %v, want %v", words, text, got, want)
		}
	})
}

// TestRequiredOfEveryMatch: whatever an expression matches holds one of its
// words, whatever the alphabet.
func TestRequiredOfEveryMatch(t *testing.T) {
	for expression, matches := range map[string][]string{
		`[eé]xport`:          {"export", "éxport"},
		`Stra[sß]e`:          {"Strase", "Straße"},
		`[가a나]장`:             {"가장", "a장", "나장"},
		`(?i)[eé]xport`:      {"EXPORT", "éxport", "Éxport"},
		`dr[oöø]p table`:     {"drop table", "dröp table", "drøp table"},
		`[kK]ubectl`:         {"kubectl", "Kubectl"},
		`x[é-í]y`:            {"xéy", "xíy"},
		`(?i)K[é]y|pass(é)?`: {"kéy", "pass", "passé"},
		`[\x{7f}-\x{81}]end`: {"\u0080end", "\u007fend"},
	} {
		tree, err := syntax.Parse(expression, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		words := Required(tree)
		re := regexp.MustCompile(expression)
		for _, m := range matches {
			if !re.MatchString(m) {
				t.Errorf("%s doesn't match %q", expression, m)
			}
			if len(words) > 0 && !New(words).Any(m) {
				t.Errorf("%s matches %q, which holds none of %q", expression, m, words)
			}
		}
	}
}
