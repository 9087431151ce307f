package detect

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	toml "github.com/pelletier/go-toml/v2"
	gitleaks "github.com/zricethezav/gitleaks/v8/config"

	"github.com/pinta-ai/pinta-agent/guard/literal"
)

// ruleFile is what we read of gitleaks' embedded rule file. Its own loader
// compiles every expression at once, some 30 MiB that an idle agent can't spare.
type ruleFile struct {
	Allowlist  ruleAllow
	Allowlists []ruleAllow
	Rules      []struct {
		ID          string
		Description string
		Path, Regex string
		SecretGroup int
		Entropy     float64
		Keywords    []string
		Tags        []string
		SkipReport  bool
		Allowlists  []ruleAllow
		Required    []any
	}
}

type ruleAllow struct {
	Description string
	Condition   string
	Commits     []string
	Paths       []string
	RegexTarget string
	Regexes     []string
	StopWords   []string
	TargetRules []string
}

// loadGitleaks turns gitleaks' rules into detectors. Rules that judge a path
// are left out: a tool's output has none.
func loadGitleaks() (list []*Detector, global []*allowlist, err error) {
	var file ruleFile
	if err := toml.Unmarshal([]byte(gitleaks.DefaultConfig), &file); err != nil {
		return nil, nil, fmt.Errorf("read gitleaks' rule file: %w", err)
	}
	for _, a := range append(file.Allowlists, file.Allowlist) {
		if len(a.Regexes)+len(a.StopWords) > 0 && len(a.TargetRules) == 0 {
			global = append(global, newAllowlist(a))
		}
	}
	for _, r := range file.Rules {
		if r.Regex == "" || r.Path != "" || r.SkipReport || len(r.Required) > 0 {
			continue
		}
		p, err := newPattern(r.Regex)
		if err != nil {
			return nil, nil, fmt.Errorf("gitleaks' rule %s: %w", r.ID, err)
		}
		d := &Detector{ID: r.ID, Category: category(r.ID), Description: r.Description,
			pattern: p, group: r.SecretGroup, entropy: r.Entropy, generic: strings.Contains(r.ID, "generic")}
		for _, k := range r.Keywords {
			d.keywords = append(d.keywords, strings.ToLower(k))
		}
		for _, a := range r.Allowlists {
			d.allow = append(d.allow, newAllowlist(a))
		}
		d.allow = append(d.allow, global...)
		list = append(list, d)
	}
	return list, global, nil
}

// category names a kind of secret as redaction does (hook.md 7), so that a
// finding in plain text and the marker that redaction left are of one kind.
func category(id string) string {
	if c, ok := sameKind[id]; ok {
		return c
	}
	return strings.ReplaceAll(id, "-", "_")
}

var sameKind = map[string]string{
	"aws-access-token":             "aws_access_key",
	"github-pat":                   "github_token",
	"github-fine-grained-pat":      "github_token",
	"github-oauth":                 "github_token",
	"github-app-token":             "github_token",
	"github-refresh-token":         "github_token",
	"gitlab-pat":                   "gitlab_token",
	"gitlab-pat-routable":          "gitlab_token",
	"slack-bot-token":              "slack_token",
	"slack-user-token":             "slack_token",
	"slack-legacy-bot-token":       "slack_token",
	"slack-legacy-token":           "slack_token",
	"openai-api-key":               "openai_key",
	"anthropic-api-key":            "anthropic_key",
	"anthropic-admin-api-key":      "anthropic_key",
	"stripe-access-token":          "stripe_key",
	"jwt":                          "jwt",
	"private-key":                  "private_key_block",
	"curl-auth-user":               "basic_auth",
	"curl-auth-header":             "bearer_token",
	"slack-legacy-workspace-token": "slack_token",
}

// allowlist says what is no secret although it matches. Paths and commits never
// apply to a tool's text.
type allowlist struct {
	and        bool
	impossible bool   // an and-list that also asks for a path or commit
	target     string // "" the secret, "match", "line"
	sources    []string
	stopWords  []string

	once  sync.Once
	re    *regexp.Regexp
	words *literal.Set // one of them is in whatever re matches; nil: not known
	stops *literal.Set
}

func newAllowlist(a ruleAllow) *allowlist {
	and := strings.EqualFold(a.Condition, "AND") || a.Condition == "&&"
	target := a.RegexTarget
	if target == "secret" {
		target = ""
	}
	return &allowlist{and: and, impossible: and && len(a.Paths)+len(a.Commits) > 0,
		target: target, sources: a.Regexes, stopWords: a.StopWords}
}

func (a *allowlist) allows(secret, match, line string) bool {
	if a.impossible {
		return false
	}
	a.once.Do(func() {
		if len(a.sources) > 0 {
			a.re = regexp.MustCompile("(?:" + strings.Join(a.sources, "|") + ")")
			if tree, err := syntax.Parse(a.re.String(), syntax.Perl); err == nil {
				if words := literal.Required(tree); len(words) > 0 {
					a.words = literal.New(words)
				}
			}
		}
		a.stops = literal.New(a.stopWords)
	})
	byStop := a.stops.Any(secret)
	if byStop && !a.and {
		return true
	}
	on := secret
	switch a.target {
	case "match":
		on = match
	case "line":
		on = line
	}
	byRegex := on != "" && a.re != nil && (a.words == nil || a.words.Any(on)) && a.re.MatchString(on)
	if a.and {
		return (a.re == nil || byRegex) && (len(a.stopWords) == 0 || byStop)
	}
	return byRegex || byStop
}
