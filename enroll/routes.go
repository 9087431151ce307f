package enroll

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/pinta-ai/pinta-agent/enroll/token"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// maxDelivered bounds what is read of a source, in bytes.
const maxDelivered = 64 << 10

// ErrNoToken means that no source holds a token.
var ErrNoToken = errors.New("no enrolment token: pass it as an argument, on standard input (-), by --token-file, " +
	"PINTA_ENROLLMENT_TOKEN or the managed configuration")

// Routes are the ways by which a token can come, first wins (manager.md 1):
// argument or standard input, --token-file, environment, managed configuration,
// what the installer left, the default file.
type Routes struct {
	// Argument is the token itself, or "-" for Stdin.
	Argument settings.Secret
	Stdin    io.Reader
	// File is --token-file.
	File string
	// Env is what TakeEnv returned.
	Env    settings.Secret
	Layout settings.Layout

	stdin func() ([]byte, error)
}

// Delivery is a token and where it came from.
type Delivery struct {
	Token  token.Token
	Source string
	scrub  func(*slog.Logger)
}

// source is one place. read gives nil for "not here"; scrub removes the token
// from it, nil where that can't be done.
type source struct {
	name  string
	read  func() ([]byte, error)
	scrub func(token.Token) error
}

const envToken = "PINTA_ENROLLMENT_TOKEN"

// TakeEnv returns PINTA_ENROLLMENT_TOKEN and takes it out of this process's
// environment, so that no child inherits it.
func TakeEnv() settings.Secret {
	v := os.Getenv(envToken)
	_ = os.Unsetenv(envToken) // fails for a malformed name only
	return settings.Secret(v)
}

// prepared makes Routes ready for several reads: standard input can be read only
// once.
func (r Routes) prepared() Routes {
	r.stdin = sync.OnceValues(func() ([]byte, error) {
		if r.Stdin == nil {
			return nil, nil
		}
		return readStdin(r.Stdin)
	})
	return r
}

// Read asks the sources in their order and parses what the first one holds that
// holds anything. A source that holds garbage is an error, not a reason to go
// on to the next: the administrator meant it. Errors: ErrNoToken, *Error.
func (r Routes) Read() (Delivery, error) {
	all := r.sources()
	for i, s := range all {
		raw, err := s.read()
		if err != nil {
			return Delivery{}, err
		}
		if raw == nil {
			continue
		}
		t, err := token.Parse(string(raw))
		if err != nil {
			return Delivery{}, tokenError(s.name, err)
		}
		return Delivery{t, s.name, func(log *slog.Logger) { scrub(all[i:], t, log) }}, nil
	}
	return Delivery{}, &Error{CodeUsage, ErrNoToken}
}

func (r Routes) sources() []source {
	if r.stdin == nil {
		r = r.prepared()
	}
	text := func(v settings.Secret) func() ([]byte, error) {
		return func() ([]byte, error) {
			if v == "" {
				return nil, nil
			}
			return []byte(v.Reveal()), nil
		}
	}
	var list []source
	if r.Argument == "-" {
		list = append(list, source{name: "standard input", read: func() ([]byte, error) {
			raw, err := r.stdin()
			if err == nil && raw == nil {
				raw = []byte{} // asked for, so "nothing there" is an error
			}
			return raw, err
		}})
	} else {
		list = append(list, source{name: "the argument", read: text(r.Argument)})
	}
	if r.File != "" {
		list = append(list, source{"the file " + r.File, func() ([]byte, error) {
			raw, err := readTokenFile(r.File)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, fail(CodeUsage, "token file %s is not there: check --token-file", r.File)
			}
			return raw, err
		}, func(token.Token) error { return removeFile(r.File) }})
	}
	list = append(list, source{name: envToken, read: text(r.Env)})
	if r.Layout.ConfigFile != "" {
		list = append(list, source{"the managed configuration", func() ([]byte, error) {
			s, err := settings.Load(r.Layout)
			if err != nil {
				return nil, fail(CodeLocal, "%w", err)
			}
			return text(s.Secret(settings.KeyEnrollmentToken))()
		}, func(t token.Token) error {
			return errors.Join(scrubPolicy(r.Layout, t), scrubConfigured(r.Layout.ConfigFile, t))
		}})
	}
	list = append(list, delivered(r.Layout)...)
	if f := r.Layout.TokenFile; f != "" {
		list = append(list, source{"the file " + f, func() ([]byte, error) {
			raw, err := readTokenFile(f)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil
			}
			return raw, err
		}, func(token.Token) error { return removeFile(f) }})
	}
	return list
}

// scrub takes the token out of every source that holds it. What can't be
// scrubbed is told: the enrolment itself is done.
func scrub(sources []source, t token.Token, log *slog.Logger) {
	for _, s := range sources {
		if s.scrub == nil {
			continue
		}
		raw, err := s.read()
		if err != nil || !holds(raw, t) {
			continue
		}
		if err := s.scrub(t); err != nil {
			log.Warn("the enrolment token could not be removed after use: remove it", "from", s.name, "error", err)
		}
	}
}

func holds(raw []byte, t token.Token) bool {
	same, err := token.Parse(string(raw))
	return err == nil && same.Reveal() == t.Reveal()
}

// readStdin reads everything; from a terminal one line, since nobody there ends
// the input.
func readStdin(in io.Reader) ([]byte, error) {
	if f, ok := in.(*os.File); ok {
		if fi, err := f.Stat(); err == nil && fi.Mode()&os.ModeCharDevice != 0 {
			return readLine(f)
		}
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxDelivered+1))
	if err != nil {
		return nil, fail(CodeLocal, "read the token from standard input: %w", err)
	}
	if len(raw) > maxDelivered {
		return nil, fail(CodeUsage, "standard input holds more than a token: pass the token alone")
	}
	return raw, nil
}

func readLine(f *os.File) ([]byte, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < token.MaxLen && !bytes.HasSuffix(line, []byte("\n")); {
		n, err := f.Read(b)
		line = append(line, b[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fail(CodeLocal, "read the token from standard input: %w", err)
		}
	}
	return line, nil
}

// readTokenFile refuses what somebody else could have put there: the file must
// be root's or this account's, writable by nobody else, and no link.
func readTokenFile(path string) ([]byte, error) {
	raw, _, err := safefile.Read(path, maxDelivered, settings.Trusted())
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return raw, err
	case errors.Is(err, safefile.ErrOwner):
		return nil, fail(CodeUsage, "token file %s is refused: %w (root's or this account's)", path, err)
	case errors.Is(err, safefile.ErrMode), errors.Is(err, safefile.ErrNotRegular), errors.Is(err, safefile.ErrTooLarge):
		return nil, fail(CodeUsage, "token file %s is refused: %w", path, err)
	}
	return nil, fail(CodeLocal, "read the token file: %w", err)
}

func removeFile(path string) error {
	d, err := safefile.OpenDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Remove(filepath.Base(path))
}

// scrubConfigured takes the lines of the key out of agent.yaml and leaves every
// other byte as it is.
func scrubConfigured(path string, t token.Token) error {
	raw, fi, err := safefile.Read(path, maxDelivered, settings.Trusted())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	out, err := withoutToken(raw, t)
	if err != nil || out == nil {
		return err
	}
	uid, gid, ok := safefile.Owner(fi)
	if !ok {
		uid, gid = -1, -1
	}
	return safefile.WriteFile(path, out, safefile.Attr{Perm: fi.Mode().Perm(), UID: uid, GID: gid})
}

// withoutToken is a configuration without this token; nil if it doesn't hold it. The
// result is parsed again, so a token in a form that lines can't cut out (a flow
// mapping) is an error and not a broken file.
func withoutToken(raw []byte, t token.Token) ([]byte, error) {
	key, value, err := findToken(raw)
	if err != nil || key == nil || !holds([]byte(value.Value), t) {
		return nil, err
	}
	cantCut := errors.New("the token's entry can't be cut out of this file: remove it by hand")
	lines := strings.SplitAfter(string(raw), "\n")
	last := value.Line + strings.Count(strings.TrimSpace(value.Value), "\n")
	if value.Style == yaml.LiteralStyle || value.Style == yaml.FoldedStyle {
		last++ // the text begins below its indicator
	}
	if key.Column != 1 || last > len(lines) {
		return nil, cantCut
	}
	out := []byte(strings.Join(append(lines[:key.Line-1:key.Line-1], lines[last:]...), ""))
	var before, after map[string]any
	if yaml.Unmarshal(raw, &before) != nil || yaml.Unmarshal(out, &after) != nil || len(after) != len(before)-1 {
		return nil, cantCut
	}
	return out, nil
}

// findToken finds the key of the token on the top level.
func findToken(raw []byte) (key, value *yaml.Node, err error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		// The parser's message may quote the line.
		return nil, nil, errors.New("it is no valid YAML")
	}
	if len(doc.Content) == 0 {
		return nil, nil, nil
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, nil, errors.New("it is no mapping of keys to values")
	}
	for i := 0; i+1 < len(doc.Content[0].Content); i += 2 {
		if k := doc.Content[0].Content[i]; strings.EqualFold(k.Value, settings.KeyEnrollmentToken) {
			return k, doc.Content[0].Content[i+1], nil
		}
	}
	return nil, nil, nil
}
