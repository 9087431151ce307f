package redact

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// oracle finds what the scanner should, the slow and obvious way: a regular expression a rule, tried everywhere. It knows no
// escapes, service accounts or shell commands; texts for it are made without backslashes.
func oracle(t string) []found {
	var out []found
	for k, re := range oracleTokens {
		for from := 0; from <= len(t); {
			at := re.FindStringSubmatchIndex(t[from:])
			if at == nil {
				break
			}
			start, end := from+at[2], from+at[3]
			out = append(out, found{start, end, k})
			from = end
		}
	}
	out = append(out, oracleWords(t)...)
	out = append(out, oracleAWS(t)...)
	out = append(out, oracleVariables(t)...)
	out = append(out, oracleAddresses(t)...)
	out = slices.DeleteFunc(out, func(f found) bool { return f.start == f.end })
	return oracleJoined(out)
}

const oracleLabel = `(?:-{0,4}[^\r\n-])*-{0,4}PRIVATE KEY(?: BLOCK)?-----`

var oracleTokens = map[kind]*regexp.Regexp{
	awsAccessKey: regexp.MustCompile(`((?:AKIA|ASIA)[A-Z0-9]{16})`),
	githubToken:  regexp.MustCompile(`(gh[pousr]_\w{36,}|github_pat_\w{22,})`),
	gitlabToken:  regexp.MustCompile(`(glpat-[\w-]{20,})`),
	slackToken:   regexp.MustCompile(`(xox[abrsp]-[A-Za-z0-9-]{10,})`),
	jwt:          regexp.MustCompile(`(eyJ[\w-]{7,}\.eyJ[\w-]{7,}\.[\w-]{10,})`),
	privateKey:   regexp.MustCompile(`(?s)(-----BEGIN ` + oracleLabel + `(?:.*?-----END ` + oracleLabel + `|.*))`),
}

// oracleWords takes what counts at a word start only.
func oracleWords(t string) (out []found) {
	rules := []struct {
		kinds []kind
		re    *regexp.Regexp
	}{
		{[]kind{anthropicKey, openaiKey}, regexp.MustCompile(`^(?:(sk-ant-[\w-]{50,})|(sk-[\w-]{40,}))`)},
		{[]kind{stripeKey}, regexp.MustCompile(`^((?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{20,})`)},
		{[]kind{bearerToken}, regexp.MustCompile(`^(?i:bearer)[ \t]+([\w.~+/=-][\w.~+/=!#$%*:?@^-]{11,})`)},
		{[]kind{basicAuth}, regexp.MustCompile(`^(?i:basic)[ \t]+([\w.~+/=-][\w.~+/=!#$%*:?@^-]{11,})`)},
		{[]kind{passwordFlag}, regexp.MustCompile(`^--(?:password|pass|pwd)(?:=|[ \t]+)` + oracleValue)},
	}
	word := regexp.MustCompile(`^\w`)
	for _, r := range rules {
		until := 0
		for i := range len(t) {
			if i < until || r.kinds[0] != passwordFlag && i > 0 && word.MatchString(t[i-1:]) || r.kinds[0] == passwordFlag && strings.HasSuffix(t[:i], "-") {
				continue
			}
			at := r.re.FindStringSubmatchIndex(t[i:])
			if at == nil {
				continue
			}
			for g := 1; 2*g < len(at); g++ {
				if at[2*g] < 0 || at[2*g] == at[2*g+1] {
					continue
				}
				f := found{i + at[2*g], i + at[2*g+1], r.kinds[min(g, len(r.kinds))-1]}
				if f.kind == passwordFlag && strings.HasPrefix(t[f.start:], "--") && t[f.start-1] != '=' && strings.ContainsAny(t[f.start-1:f.start], " \t") {
					continue
				}
				if out = append(out, f); f.kind != bearerToken && f.kind != basicAuth {
					until = f.end // a token may end in the word before the next one
				}
			}
		}
	}
	return out
}

const oracleValue = `(?:"([^"]*)"|'([^']*)'|"([^"\r\n]*)|'([^'\r\n]*)|([^\s"'` + "`" + `;&|<>()]+))`

func oracleAWS(t string) (out []found) {
	name := regexp.MustCompile(`(?i:aws)[^\r\n]{0,20}(?i:secret)(?:[^\r\n]{0,20}(?i:access))?(?:[^\r\n]{0,20}(?i:key))?["']?[ \t]*[:=][ \t]*["']?$`)
	value := regexp.MustCompile(`^[A-Za-z0-9+/=]*`)
	for v := range len(t) {
		if len(value.FindString(t[v:])) == 40 && name.MatchString(t[:v]) {
			out = append(out, found{v, v + 40, awsSecretKey})
		}
	}
	return out
}

func oracleVariables(t string) (out []found) {
	name := regexp.MustCompile("(?:^|[\\s;&|(\"'`])([A-Z_][A-Z0-9_]*)=$")
	value := regexp.MustCompile("^" + oracleValue)
	holds := regexp.MustCompile(`KEY|SECRET|TOKEN|PASSWORD|PASSWD|PWD`)
	until := 0
	for i := 1; i < len(t); i++ {
		if t[i-1] != '=' {
			continue
		}
		m := name.FindStringSubmatch(t[:i])
		if m == nil || i-1 < until || !holds.MatchString(m[1]) {
			continue
		}
		at := value.FindStringSubmatchIndex(t[i:])
		for g := 1; at != nil && g <= 5; g++ {
			if at[2*g] >= 0 && at[2*g] < at[2*g+1] {
				out, until = append(out, found{i + at[2*g], i + at[2*g+1], envSecret}), i+at[2*g+1]
			}
		}
	}
	return out
}

func oracleAddresses(t string) (out []found) {
	scheme := regexp.MustCompile(`(?i:postgres(?:ql)?|mysql[2s]?|mariadb|mongodb|rediss?)(?:\+[A-Za-z0-9_.+-]*)?://$`)
	authority := regexp.MustCompile("^[^\\s\"'`/?#<>]*")
	until := 0
	for i := range len(t) {
		if i-3 < until || !strings.HasSuffix(t[:i], "://") || !scheme.MatchString(t[:i]) || strings.HasPrefix(t[i:], "[") {
			continue
		}
		a := authority.FindString(t[i:])
		colon, at := strings.IndexByte(a, ':'), strings.LastIndexByte(a, '@')
		if colon >= 0 && at > colon+1 {
			out, until = append(out, found{i + colon + 1, i + at, dbPassword}), i+at
		}
	}
	return out
}

func oracleJoined(list []found) (out []found) {
	for len(list) > 0 {
		group := []found{list[0]}
		list = slices.Clone(list[1:])
		for grown := true; grown; {
			grown = false
			for i, f := range list {
				if slices.ContainsFunc(group, func(g found) bool { return f.start < g.end && g.start < f.end }) {
					group, list, grown = append(group, f), slices.Delete(list, i, i+1), true
					break
				}
			}
		}
		best := group[0]
		join := best
		for _, f := range group {
			if n, m := f.end-f.start, best.end-best.start; n > m || n == m && f.kind < best.kind {
				best = f
			}
			join.start, join.end = min(join.start, f.start), max(join.end, f.end)
		}
		join.kind = best.kind
		out = append(out, join)
	}
	slices.SortFunc(out, func(a, b found) int { return a.start - b.start })
	return out
}

var fragments = strings.Split("AKIA|ASIA|ABCDEFGH12345678|aws|AWS_|_secret|secret_|access|_key|=|:| |  |\t|\n|\r|\"|'|`|;|&|(|)|<|>|"+base40+"|"+base40+"|A|+|/"+
	"|ghp_|ghs_|github_pat_|"+strings.Repeat("a1B2", 5)+"|"+strings.Repeat("x", 11)+"|glpat-|xoxb-|sk-|sk-ant-|sk_live_|pk_test_|rk_test|proj-|eyJ|eyJabcdefg|.|.eyJ|_|-|--"+
	"|-----BEGIN |-----END |RSA |PRIVATE KEY|PRIVATE KEY-----| BLOCK-----|-----|Bearer |bearer\t|basic |BASIC  |postgres://|mysql://|redis://:|mongodb+srv://|://|user:|@|@host/|/|?|#|[|]|{"+
	"|--password|--pass|--pwd=|--password=|export |KEY=|API_TOKEN=|SECRET|PWD|PASSWD=|2|lower|é|$|,", "|")

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(14) {
		f := fragments[r.IntN(len(fragments))]
		if r.IntN(12) == 0 {
			f = strings.Repeat(f, 1+r.IntN(12))
		}
		b.WriteString(f)
	}
	return b.String()
}

func TestScannerAgreesWithOracle(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 2_000
	}
	seed := uint64(7)
	if s := os.Getenv("ORACLE_SEED"); s != "" { // other texts, for a longer search
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	r := rand.New(rand.NewPCG(7, seed))
	hits := 0
	for range rounds {
		in := randomText(r)
		if strings.Contains(in, "[REDACTED:") || addressWithSlash.MatchString(in) || strings.Contains(in, "$'") || strings.Contains(in, `$"`) {
			continue // what the oracle leaves out
		}
		got, want := Rules(0).find("", in), oracle(in)
		hits += len(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%q\n got %v\nwant %v", in, got, want)
		}
	}
	t.Logf("%d matches", hits)
	if hits < rounds/10 {
		t.Error("the texts hold too few secrets to prove anything")
	}
}

var addressWithSlash = regexp.MustCompile("(?i:postgres|mysql|mongodb|redis)[a-z+]*://[^\\s\"'`/?#<>@]*:[^\\s\"'`<>@]*[/?#][^\\s\"'`]*@")
