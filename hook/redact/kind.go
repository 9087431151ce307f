package redact

import "slices"

// kind is a row of the table in hook.md 7, in its order: of equally long matches the earlier row names the marker.
type kind uint8

const (
	awsAccessKey kind = iota
	awsSecretKey
	serviceAccount
	githubToken
	gitlabToken
	slackToken
	anthropicKey // before openaiKey: the more specific name wins
	openaiKey
	stripeKey
	jwt
	privateKey
	bearerToken
	basicAuth
	dbPassword
	passwordFlag
	shortFlag
	envSecret
	kinds
)

var markers = [kinds]string{
	awsAccessKey:   "[REDACTED:aws_access_key]",
	awsSecretKey:   "[REDACTED:aws_secret_key]",
	serviceAccount: "[REDACTED:gcp_service_account]",
	githubToken:    "[REDACTED:github_token]",
	gitlabToken:    "[REDACTED:gitlab_token]",
	slackToken:     "[REDACTED:slack_token]",
	anthropicKey:   "[REDACTED:anthropic_key]",
	openaiKey:      "[REDACTED:openai_key]",
	stripeKey:      "[REDACTED:stripe_key]",
	jwt:            "[REDACTED:jwt]",
	privateKey:     "[REDACTED:private_key_block]",
	bearerToken:    "[REDACTED:bearer_token]",
	basicAuth:      "[REDACTED:basic_auth]",
	dbPassword:     "[REDACTED:db_url_password]",
	passwordFlag:   "[REDACTED:cli_password_flag]",
	shortFlag:      "[REDACTED:cli_password_short]",
	envSecret:      "[REDACTED:env_var_secret]",
}

func (k kind) marker() string { return markers[k] }

// isMarker tells whether s is exactly what redaction writes: it hides something already, and redacting it again would only
// change its name.
func isMarker(s string) bool {
	return len(s) > 2 && s[0] == '[' && s[len(s)-1] == ']' && slices.Contains(markers[:], s)
}

// found is a match in text: bytes [start, end).
type found struct {
	start, end int
	kind       kind
}

// joined sorts matches and joins those that overlap; the longest one gives the kind, then the table's order. Matches that
// only touch stay apart.
func joined(list []found) []found {
	if len(list) < 2 {
		return list
	}
	slices.SortFunc(list, func(a, b found) int {
		if a.start != b.start {
			return a.start - b.start
		}
		return int(a.kind) - int(b.kind)
	})
	out := list[:0]
	longest := 0
	for _, f := range list {
		last := len(out) - 1
		if last < 0 || f.start >= out[last].end {
			out, longest = append(out, f), f.end-f.start
			continue
		}
		if n := f.end - f.start; n > longest || n == longest && f.kind < out[last].kind {
			longest, out[last].kind = n, f.kind
		}
		out[last].end = max(out[last].end, f.end)
	}
	return out
}
