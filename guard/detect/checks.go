package detect

import (
	"regexp"
	"strings"

	"github.com/pinta-ai/pinta-agent/hook/redact"
)

// own lists the detectors that are not gitleaks': personal and payment numbers
// with their check digits, and the kinds that redaction knows beyond gitleaks
// (hook.md 7), so that plain text and redacted text are judged alike.
func own() []*Detector {
	list := []*Detector{
		{ID: "credit_card", Description: "payment card number (Luhn)", Groups: []string{"pii", "payment"}, scan: cards},
		{ID: "iban", Description: "bank account number (ISO 13616, mod 97)", Groups: []string{"pii", "payment"}, scan: ibans},
		{ID: "kr_rrn", Description: "Korean resident registration number (check digit)", Groups: []string{"pii"}, scan: residents},
	}
	list = append(list, &Detector{ID: "cli_password_short", Description: "short password option of the MySQL family",
		Groups: []string{"tier1"}, scan: mysqlPasswords})
	for _, p := range []struct{ id, text, expression string }{
		{"aws_access_key", "AWS access key id", `\b((?:AKIA|ASIA)[A-Z0-9]{16})\b`},
		{"aws_secret_key", "AWS secret access key", `(?i)aws_?(?:[\w.-]{0,20})secret_?(?:access)?_?(?:key)?["']?\s{0,3}[:=]\s{0,3}["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)`},
		{"gcp_service_account", "Google service account key", `"private_key_id"\s{0,5}:\s{0,5}"([0-9a-f]{20,})"`},
		{"github_token", "GitHub token", `\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})`},
		{"gitlab_token", "GitLab token", `\b(glpat-[A-Za-z0-9_-]{20,})`},
		{"slack_token", "Slack token", `\b(xox[abrsp]-[A-Za-z0-9-]{10,})`},
		{"openai_key", "OpenAI key", `\b(sk-(?:proj-)?[A-Za-z0-9_-]{40,})`},
		{"anthropic_key", "Anthropic key", `\b(sk-ant-[A-Za-z0-9_-]{50,})`},
		{"stripe_key", "Stripe key", `\b((?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{20,})`},
		{"private_key_block", "private key in PEM", `-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----(?:[\sA-Za-z0-9+/=:,.\\]|-[A-Za-z0-9])*(?:-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----)?`},
		{"bearer_token", "bearer token", `(?i)\bbearer[ \t]{1,4}([A-Za-z0-9._~+/-]{12,}=*)`},
		{"basic_auth", "basic credentials", `(?i)\bbasic[ \t]{1,4}([A-Za-z0-9+/]{12,}={0,2})`},
		{"db_url_password", "password in a database URL", `(?i)\b(?:postgres(?:ql)?|mysql|mariadb|mongodb(?:\+srv)?|rediss?)://[^\s:/@'"]{0,64}:([^\s@'"/]+)@`},
		{"cli_password_flag", "password on a command line", `--(?:password|pass|pwd)(?:=|[ \t]{1,4})(?:"([^"\n]{1,256})"|'([^'\n]{1,256})'|([^\s"';&|<>()-][^\s"';&|<>()]*))`},
		{"env_var_secret", "secret in an environment assignment", `(?m)(?:^|[ \t;&|("'` + "`" + `])(?:export[ \t]{1,4})?[A-Z0-9_]{0,64}(?:KEY|SECRET|TOKEN|PASSWORD|PASSWD|PWD)[A-Z0-9_]{0,64}=(?:"([^"\n]+)"|'([^'\n]+)'|([^\s"';&|<>()$` + "`" + `][^\s"';&|<>()]*))`},
	} {
		d := &Detector{ID: p.id, Description: p.text, Groups: []string{"tier1"}}
		var err error
		if d.pattern, err = newPattern(p.expression); err != nil {
			panic("detect: " + p.id + ": " + err.Error())
		}
		if p.id == "env_var_secret" || p.id == "cli_password_flag" {
			d.valid = notPlaceholder
		}
		list = append(list, d)
	}
	for _, d := range list {
		d.Category = d.ID
	}
	return list
}

var placeholder = regexp.MustCompile(`^(?:\$|%|\{|<|\[REDACTED:|true$|false$|null$|none$|[0-9]{1,9}$)`)

// notPlaceholder refuses what stands for a value elsewhere, switches and small
// numbers (MAX_TOKENS=4096).
func notPlaceholder(s string) bool { return !placeholder.MatchString(s) }

var mysqlOption = regexp.MustCompile(`(?m)(?:mysql|mariadb)[^\n]*?[ \t]["']?-p([^\s'";&|<>()]+)`)

// mysqlPasswords leaves the judgement to redaction, which knows find -path and
// mkdir -p from mysql -p: what it takes out of a line is a password.
func mysqlPasswords(text string, found func(start, end int)) {
	if !strings.Contains(text, "mysql") && !strings.Contains(text, "mariadb") {
		return
	}
	for _, m := range mysqlOption.FindAllStringSubmatchIndex(text, 200) {
		line := text[lineStart(text, m[2]):lineEnd(text, m[3])]
		after := redact.Text(line)
		if strings.Contains(after, "[REDACTED:cli_password_short]") && !strings.Contains(after, "-p"+text[m[2]:m[3]]) {
			found(m[2], m[3])
		}
	}
}

// numbers tries every number of digits that single blanks or hyphens may part:
// all groups of digits that stand so together, each group alone, and those that
// are parted as a shape says, for other numbers may stand beside it. No letter
// or digit touches it. found says whether it was one.
func numbers(text string, least, most int, shapes [][]int, found func(start, end int, digits []byte) bool) {
	var groups []group
	var digits [20]byte
	try := func(list []group) bool {
		n := 0
		for _, g := range list {
			if n += g.end - g.start; n > most {
				return false
			}
		}
		if n < least {
			return false
		}
		start, end := list[0].start, list[len(list)-1].end
		if start > 0 && (wordByte(text[start-1]) || text[start-1] == '.') || end < len(text) && wordByte(text[end]) {
			return false
		}
		n = 0
		for i := start; i < end; i++ {
			if digit(text[i]) {
				digits[n] = text[i] - '0'
				n++
			}
		}
		return found(start, end, digits[:n])
	}
	for i := 0; i < len(text); {
		if !digit(text[i]) {
			i++
			continue
		}
		groups = groups[:0]
		for len(groups) < maxGroups && i < len(text) && digit(text[i]) {
			start := i
			for i < len(text) && digit(text[i]) {
				i++
			}
			groups = append(groups, group{start, i})
			if i+1 < len(text) && (text[i] == ' ' || text[i] == '-') && digit(text[i+1]) {
				i++
			}
		}
		if len(groups) > 1 && len(groups) <= most && try(groups) {
			continue
		}
		for k := 0; k < len(groups); {
			n := 1
			for _, s := range shapes {
				if shaped(groups, k, s) && try(groups[k:k+len(s)]) {
					n = len(s)
					break
				}
			}
			if n == 1 {
				try(groups[k : k+1])
			}
			k += n
		}
	}
}

type group struct{ start, end int }

const maxGroups = 1 << 12

// shaped says whether groups have the widths of a shape from k on. A row of
// numbers that goes on as it begins is a table.
func shaped(groups []group, k int, widths []int) bool {
	wide := func(i int) int {
		if i < 0 || i >= len(groups) {
			return 0
		}
		return groups[i].end - groups[i].start
	}
	for i, w := range widths {
		if wide(k+i) != w {
			return false
		}
	}
	return wide(k-1) != widths[0] && wide(k+len(widths)) != widths[0]
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func wordByte(c byte) bool {
	return digit(c) || c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

// cardShapes are how card numbers are printed.
var cardShapes = [][]int{{4, 4, 4, 4, 3}, {4, 4, 4, 4}, {4, 6, 5}, {4, 6, 4}}

func cards(text string, found func(start, end int)) {
	numbers(text, 13, 19, cardShapes, func(start, end int, d []byte) bool {
		ok := issued(d) && Luhn(d)
		if ok {
			found(start, end)
		}
		return ok
	})
}

// issued says whether a number of this length can begin so: Visa, Mastercard,
// American Express, Discover, JCB, Diners, UnionPay.
func issued(d []byte) bool {
	two, four := int(d[0])*10+int(d[1]), 0
	for _, x := range d[:4] {
		four = four*10 + int(x)
	}
	switch n := len(d); {
	case d[0] == 4:
		return n == 13 || n == 16 || n == 19
	case 51 <= two && two <= 55, 2221 <= four && four <= 2720:
		return n == 16
	case two == 34 || two == 37:
		return n == 15
	case four == 6011, two == 65, 644 <= four/10 && four/10 <= 649, 3528 <= four && four <= 3589:
		return n >= 16
	case 300 <= four/10 && four/10 <= 305, two == 36, two == 38:
		return n == 14
	case two == 62:
		return n >= 16
	}
	return false
}

// Luhn checks the last of the digits (values 0 to 9) by ISO/IEC 7812.
func Luhn(digits []byte) bool {
	sum := 0
	for i := range digits {
		x := int(digits[len(digits)-1-i])
		if i%2 == 1 {
			if x *= 2; x > 9 {
				x -= 9
			}
		}
		sum += x
	}
	return len(digits) > 0 && sum%10 == 0
}

// residents: YYMMDD-SNNNNNC with its check digit.
func residents(text string, found func(start, end int)) {
	numbers(text, 13, 13, [][]int{{6, 7}}, func(start, end int, d []byte) bool {
		if end-start != 14 || text[start+6] != '-' || d[6] < 1 || d[6] > 4 {
			return false
		}
		month, day := d[2]*10+d[3], d[4]*10+d[5]
		sum := 0
		for i, w := range [12]int{2, 3, 4, 5, 6, 7, 8, 9, 2, 3, 4, 5} {
			sum += w * int(d[i])
		}
		ok := month >= 1 && month <= 12 && day >= 1 && day <= 31 && int(d[12]) == (11-sum%11)%10
		if ok {
			found(start, end)
		}
		return ok
	})
}

// ibanLength by country (SWIFT registry); others are not taken for an IBAN.
var ibanLength = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21,
	"CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27,
	"GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26,
	"IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "MC": 27, "MD": 24,
	"ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29,
	"RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "TN": 24, "TR": 26, "UA": 29, "VA": 22,
	"VG": 24, "XK": 20,
}

func ibans(text string, found func(start, end int)) {
	for i := 0; i+15 <= len(text); i++ {
		// Two capitals, two digits, at a word's begin.
		if !digit(text[i+2]) || !digit(text[i+3]) || text[i] < 'A' || text[i] > 'Z' || text[i+1] < 'A' || text[i+1] > 'Z' ||
			i > 0 && wordByte(text[i-1]) {
			continue
		}
		want, ok := ibanLength[text[i:i+2]]
		if !ok {
			continue
		}
		var chars [34]byte
		n, at := 0, i
		for at < len(text) && n < want {
			if c := text[at]; digit(c) || 'A' <= c && c <= 'Z' {
				chars[n] = c
				n++
			} else if c != ' ' || text[at-1] == ' ' {
				break
			}
			at++
		}
		if n == want && (at == len(text) || !wordByte(text[at])) && mod97(chars[:n]) {
			found(i, at)
			i = at - 1
		}
	}
}

func mod97(iban []byte) bool {
	rest := 0
	for i := range iban {
		c := iban[(i+4)%len(iban)]
		if digit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest == 1
}
