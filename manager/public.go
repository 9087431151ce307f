package manager

import (
	"net/http"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// publicSurface needs no credential.
type publicSurface struct{ *Manager }

type publicCaller struct{}

func (s publicSurface) authenticate(w http.ResponseWriter, r *http.Request, op api.Operation) (publicCaller, bool) {
	if _, p := readBody(w, r, op); p != nil {
		p.Write(w)
		return publicCaller{}, false
	}
	return publicCaller{}, true
}

func (s publicSurface) GetOpenAPI(w http.ResponseWriter, _ *http.Request, _ publicCaller) {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(api.OpenAPI)
}

func (s publicSurface) GetHealth(w http.ResponseWriter, _ *http.Request, _ publicCaller) {
	if s.hub.released() {
		s.ending().Write(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
