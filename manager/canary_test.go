package manager

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// No secret of a token or an API key is in the log, the store or any answer but the one that hands it out (security.md S5).
func TestSecretsStayOut(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	b := newBed(t, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(lockedWriter{&mu, &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	token := b.token()
	d := b.enrol(token)
	_, err := d.report()
	b.must(err)
	key, err := api.JSON[api.APIKey](b.admin(api.RoleAdmin).CreateAPIKey(t.Context(), api.APIKeyCreate{Name: "ann", Role: api.RoleAdmin}))
	b.must(err)
	admin := b.client(key.Secret)
	var answers strings.Builder
	for _, call := range []func() ([]byte, error){
		func() ([]byte, error) { return api.Raw(admin.ListAPIKeys(t.Context())) },
		func() ([]byte, error) { return api.Raw(admin.ListTokens(t.Context())) },
		func() ([]byte, error) { return api.Raw(admin.ListAudit(t.Context(), api.ListAuditParams{})) },
		func() ([]byte, error) { return api.Raw(admin.GetDevice(t.Context(), d.id)) },
	} {
		text, err := call()
		b.must(err)
		answers.Write(text)
	}
	b.close()
	db, err := os.ReadFile(filepath.Join(b.dir, "manager.db"))
	b.must(err)
	secret := key.Secret[strings.LastIndexByte(key.Secret, '_')+1:]
	for name, text := range map[string]string{"log": log.String(), "store": string(db), "answers": answers.String()} {
		for what, canary := range map[string]string{"API key": secret, "token seed": string(token.key.Seed()), "device key": string(d.key.Seed())} {
			if strings.Contains(text, canary) {
				t.Errorf("the %s is in the %s", what, name)
			}
		}
	}
}
