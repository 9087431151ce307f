package detect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pinta-ai/pinta-agent/hook/redact"
)

func kinds(text string) (list []string) {
	s := Standard()
	found, _ := s.Scan(context.Background(), text, s.All())
	for _, f := range found {
		if !slices.Contains(list, f.Category) {
			list = append(list, f.Category)
		}
	}
	slices.Sort(list)
	return list
}

// TestRedactionKinds: whatever redaction replaces is also a finding of the same
// kind, so that plain text on the socket and redacted text over TCP are judged
// alike.
func TestRedactionKinds(t *testing.T) {
	long := strings.Repeat("aB3dE6fG", 12)
	for kind, list := range map[string][]string{
		"aws_access_key":      {"AKIAQ3EGRIVMTFXW7ZC5", "key=ASIAQ3EGRIVMTFXW7ZC5;"},
		"aws_secret_key":      {"aws_secret_access_key = " + long[:40], `"awsSecretKey": "` + long[:40] + `"`},
		"gcp_service_account": {`{"type": "service_account", "project_id": "p", "private_key_id": "0123456789abcdef0123456789abcdef01234567", "private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n-----END PRIVATE KEY-----\n"}`},
		"github_token":        {"ghp_" + long[:36], "gho_" + long[:40], "ghu_" + long[:36], "ghs_" + long[:36], "ghr_" + long[:36], "github_pat_" + long[:30]},
		"gitlab_token":        {"glpat-" + long[:20]},
		"slack_token":         {"xoxb-1234567890-" + long[:12], "xoxp-" + long[:10]},
		"openai_key":          {"sk-" + long[:48], "sk-proj-" + long[:60]},
		"anthropic_key":       {"sk-ant-api03-" + long[:80]},
		"stripe_key":          {"sk_live_" + long[:24], "pk_test_" + long[:24]},
		"jwt":                 {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV"},
		"private_key_block":   {"-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n-----END RSA PRIVATE KEY-----", `-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----`, "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA"},
		"bearer_token":        {"Authorization: Bearer " + long[:20], "bearer abcdefghijkl"},
		"basic_auth":          {"Authorization: Basic dXNlcjpwYXNzd29yZA=="},
		"db_url_password":     {"postgres://app:s3cr3t@db/x", "mongodb+srv://u:p4ssword@h", "redis://:secret@h:6379"},
		"cli_password_flag":   {"tool --password=hunter22", "tool --pwd 'a b'", "tool --pass hunter22"},
		"cli_password_short":  {"mysql -u root -phunter22 db", "mysqldump -phunter22"},
		"env_var_secret":      {"export API_KEY=abcdef", "DB_PASSWORD='a b c'", "x; GITHUB_TOKEN=abc", "A_SECRET_B=\"x y\""},
	} {
		for _, text := range list {
			t.Run(kind, func(t *testing.T) {
				if got := kinds(text); !slices.Contains(got, kind) {
					t.Errorf("%q: %v", text, got)
				}
				for around, in := range map[string]string{"alone": text, "in a line": "x " + text + "\nnext"} {
					out := redact.Text(in)
					if !strings.Contains(out, "[REDACTED:") {
						t.Errorf("%s: redaction knows nothing of %q", around, in)
						continue
					}
					for _, m := range strings.SplitAfter(out, "]") {
						if at := strings.Index(m, "[REDACTED:"); at >= 0 {
							marker := strings.TrimSuffix(m[at+len("[REDACTED:"):], "]")
							if !slices.Contains(kinds(in), marker) {
								t.Errorf("%s: redaction calls %q %s, detection %v", around, in, marker, kinds(in))
							}
						}
					}
				}
			})
		}
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"4111111111111111":                        "credit_card",
		"card 4111-1111-1111-1111.":               "credit_card",
		"378282246310005":                         "credit_card",
		"5555 5555 5555 4444":                     "credit_card",
		"6011111111111117":                        "credit_card",
		"30569309025904":                          "credit_card",
		"4111111111111112":                        "", // check digit
		"1234567812345670":                        "", // no issuer
		"41111111111111111":                       "", // length
		"x4111111111111111":                       "", // within a word
		"4111111111111111a":                       "",
		"0.4111111111111111":                      "", // a fraction
		"4111  1111 1111 1111":                    "", // two blanks
		"DE89370400440532013000":                  "iban",
		"GB82 WEST 1234 5698 7654 32":             "iban",
		"DE89370400440532013001":                  "",
		"XX89370400440532013000":                  "",
		"aDE89370400440532013000":                 "",
		"DE89 3704 0044 0532 0130 00 next":        "iban",
		"900101-1234568":                          "kr_rrn",
		"900101-1234567":                          "",
		"901301-1234568":                          "",
		"2026-01-02T03:04:05.678901234Z":          "",
		"1767323045678":                           "",
		"7 4111111111111111 123":                  "credit_card", // other numbers beside it
		"4111 1111 1111 1111 12/29 123":           "credit_card",
		"12 4111-1111-1111-1111":                  "credit_card",
		"3782 822463 10005 926":                   "credit_card",
		"1 900101-1234568 30":                     "kr_rrn",
		"4111111111111112 4111111111111111":       "credit_card",
		"1111 1111 4111 1111 1111 1111 1111 1111": "", // a table
		"0.4111111111111111 7":                    "",
		"7 4111111111111111a":                     "",
		"find / -name mysql -print":               "",
		"mkdir -p mysql && ls -path":              "",
	} {
		t.Run(text, func(t *testing.T) {
			if got := strings.Join(kinds(text), " "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestSelect(t *testing.T) {
	s := Standard()
	if _, err := s.Select("github_token", "nothing"); err == nil {
		t.Error("an unknown detector is an error")
	}
	sel, err := s.Select("payment")
	if err != nil {
		t.Fatal(err)
	}
	found, _ := s.Scan(context.Background(), "4111111111111111 AKIAQ3EGRIVMTFXW7ZC5", sel)
	if len(found) != 1 || found[0].Category != "credit_card" || found[0].Start != 0 || found[0].End != 16 {
		t.Errorf("got %+v", found)
	}
	for _, name := range []string{"secrets", "tier1", "pii", "jwt", "github-pat", "github_token", "iban", "generic-api-key"} {
		if !slices.Contains(s.Names(), name) {
			t.Errorf("no detector %s", name)
		}
	}
	all := s.All()
	if !s.Has(all, "unknown_kind") || s.Has(sel, "unknown_kind") || !s.Has(sel, "credit_card") || s.Has(sel, "jwt") {
		t.Error("which names a selection has")
	}
}

// TestDone: a scan stops with its context.
func TestDone(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := Standard()
	if _, err := s.Scan(ctx, strings.Repeat("key=abcdefghijkl ", 100000), s.All()); err == nil {
		t.Error("no error")
	}
}

func TestManyFindings(t *testing.T) {
	var b strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&b, "AKIA%016d\n", i)
	}
	s := Standard()
	found, _ := s.Scan(context.Background(), strings.ReplaceAll(b.String(), "0", "Q"), s.All())
	if len(found) == 0 || len(found) > 3*MaxFindings {
		t.Errorf("%d findings", len(found))
	}
}

func FuzzScan(f *testing.F) {
	f.Add("api_key = 'abcdefghij1234567890'")
	f.Add("-----BEGIN PRIVATE KEY-----\nMIIE")
	f.Add("4111 1111 1111 1111 DE89370400440532013000")
	f.Fuzz(func(t *testing.T, text string) {
		s := Standard()
		found, err := s.Scan(context.Background(), text, s.All())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range found {
			if text[x.Start:x.End] != x.Secret || x.Secret == "" {
				t.Errorf("%+v in %q", x, text)
			}
		}
		if len(text) < 400 {
			if got, want := ours(text), theirs(text); !slices.Equal(got, want) {
				t.Errorf("%q: ours %q, theirs %q", text, got, want)
			}
		}
	})
}
