package settings

import "log/slog"

// Mask is what a Secret shows of itself.
const Mask = "[secret]"

// Secret is a string that prints as a mask in fmt, slog, JSON and YAML
// (security.md S5). Reveal gives the text to the one place that sends it.
type Secret string

// Reveal returns the text itself. Never log what it returns.
func (s Secret) Reveal() string { return string(s) }

// String masks; the empty secret stays empty so that "not set" can be told.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Mask
}

// GoString masks %#v as well.
func (s Secret) GoString() string { return s.String() }

// LogValue masks in slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText masks in JSON, YAML and every other text encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
