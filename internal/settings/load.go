package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

const maxConfigFile = 1 << 20

// Settings is what the administrator configured: managed sources (registry
// policy, managed preferences) over the environment over agent.yaml over the
// defaults of Keys.
type Settings struct {
	values *viper.Viper
	// origin names the source of each key that is not at its default.
	origin map[string]string
}

// Load reads all sources of l's machine. A missing agent.yaml is no error; one
// that others could write, that is no YAML, or that holds an unknown key is.
func Load(l Layout) (*Settings, error) {
	s := &Settings{values: viper.New(), origin: map[string]string{}}
	for _, k := range Keys {
		s.values.SetDefault(k.Name, k.Default)
		if err := s.values.BindEnv(k.Name, k.Env); err != nil {
			return nil, err
		}
	}
	if err := s.readFile(l.ConfigFile); err != nil {
		return nil, err
	}
	if l.Root == "" {
		if err := s.readManaged(l); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Settings) readFile(path string) error {
	data, _, err := safefile.Read(path, maxConfigFile, Trusted())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	s.values.SetConfigType("yaml")
	if err := s.values.ReadConfig(bytes.NewReader(data)); err != nil {
		return fmt.Errorf("configuration %s is no valid YAML: %w", path, err)
	}
	known := map[string]string{}
	for _, k := range Keys {
		known[strings.ToLower(k.Name)] = k.Name
	}
	for _, key := range s.values.AllKeys() {
		name, ok := known[key]
		if !ok {
			return fmt.Errorf("configuration %s: unknown key %q; known are %s",
				path, key, strings.Join(slices.Sorted(maps.Values(known)), ", "))
		}
		if s.values.InConfig(name) {
			s.origin[name] = path
		}
	}
	return nil
}

// Trusted is what a file that steers the agent must be: root's or this
// account's, and writable by nobody else.
func Trusted() safefile.Check {
	return safefile.Check{Owners: []int{0, os.Geteuid()}, Forbid: 0o022}
}

func (s *Settings) readManaged(l Layout) error {
	managed, source, err := managedValues(l)
	if err != nil {
		return err
	}
	for _, k := range Keys {
		if v, ok := managed[k.Name]; ok {
			s.values.Set(k.Name, v)
			s.origin[k.Name] = source
		}
	}
	return nil
}

// Text returns a key's value.
func (s *Settings) Text(name string) string { return strings.TrimSpace(s.values.GetString(name)) }

// Secret returns a key's value, masked wherever it is printed.
func (s *Settings) Secret(name string) Secret { return Secret(s.Text(name)) }

// Bool returns a key's value; what is no bool is false.
func (s *Settings) Bool(name string) bool { return s.values.GetBool(name) }

// Int returns a key's value; what is no number is 0.
func (s *Settings) Int(name string) int { return s.values.GetInt(name) }

// Network returns how to reach servers, by the keys proxy and caFile.
func (s *Settings) Network() Network {
	return Network{Proxy: s.Secret(KeyProxy), CAFile: s.Text(KeyCAFile)}
}

// Equal reports whether every key has the same value in both.
func (s *Settings) Equal(o *Settings) bool {
	return !slices.ContainsFunc(Keys, func(k Key) bool { return s.Text(k.Name) != o.Text(k.Name) })
}

// Value is one configured key as status shows it.
type Value struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

// Values lists the keys that are not at their defaults, secrets masked.
func (s *Settings) Values() []Value {
	list := []Value{}
	for _, k := range Keys {
		v := s.Text(k.Name)
		if v == k.Default {
			continue
		}
		if k.Kind == SecretText {
			v = Secret(v).String()
		}
		source := s.origin[k.Name]
		if source == "" {
			source = k.Env
		}
		list = append(list, Value{k.Name, v, source})
	}
	return list
}
