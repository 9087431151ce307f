package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pinta-ai/pinta-agent/cmd/pinta-agent/daemon"
	"github.com/pinta-ai/pinta-agent/enroll"
	"github.com/pinta-ai/pinta-agent/installer"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// diagnosis is what doctor prints: the installer's findings, those of the
// service and of the way to the Manager.
type diagnosis struct {
	installer.Diagnosis
	Service bool `json:"service"`
	Manager *way `json:"manager,omitempty"`
}

// way is how the Manager is reached, or why not.
type way struct {
	URL   string   `json:"url"`
	Proxy string   `json:"proxy"` // "direct" without one
	Chain []string `json:"chain,omitempty"`
	Error string   `json:"error,omitempty"`
}

// diagnose works without the service and without the network.
func (a *app) diagnose(ctx context.Context) (diagnosis, error) {
	state, err := enroll.Open(a.layout.StateDir)
	if err != nil {
		return diagnosis{}, err
	}
	var d diagnosis
	add := func(severity installer.Severity, id, detail, remedy string) {
		d.Findings = append(d.Findings, installer.Finding{ID: id, Severity: severity, Object: "agent", Detail: detail, Remedy: remedy})
	}
	desired, err := a.desired(ctx, state)
	switch {
	case errors.Is(err, errNothingWanted):
		add(installer.Error, "agent.not-enrolled", "this machine is not enrolled and no hooks are installed", "run `pinta-agent enroll` with a token, or `pinta-agent hooks install`")
	case err != nil:
		return d, err
	default:
		if d.Diagnosis, err = installer.Doctor(ctx, installer.Real(a.layout), desired); err != nil {
			return d, err
		}
	}
	a.diagnoseService(ctx, desired.Managed, &d, add)
	if identity, err := state.Identity(); err == nil {
		d.Manager = a.wayTo(ctx, identity)
		if d.Manager.Error != "" {
			add(installer.Warning, "manager.unreachable", d.Manager.Error, "verdicts go on by the last config; check the proxy and CA settings if this lasts")
		}
	}
	return d, nil
}

func (a *app) diagnoseService(ctx context.Context, managed bool, d *diagnosis, add func(installer.Severity, string, string, string)) {
	var status daemon.Status
	err := daemon.Ask(ctx, a.layout, http.MethodGet, "/status", &status)
	switch {
	case errors.Is(err, daemon.ErrNotRunning):
		if managed {
			add(installer.Error, "agent.not-running", "the service does not run: nothing is judged, spans wait in the users' queues", "run `pinta-agent service start`")
		}
		return
	case err != nil:
		add(installer.Error, "agent.no-answer", err.Error(), "restart the service: `pinta-agent service restart`")
		return
	}
	d.Service = true
	if !status.Serving {
		add(installer.Error, "endpoint.down", "the guard and relay process does not serve", "see the service's log; it is restarted by itself")
	}
	if a.layout.System && !status.Unprivileged {
		add(installer.Notice, "endpoint.privileged", "guard and relay run as the service itself", fmt.Sprintf("create the account %s, as the packages do, and restart the service", a.layout.Account))
	}
	if why := status.Endpoint.Refused; why != "" {
		add(installer.Error, "config.refused", "the config in force can't be used, and hooks are judged by the built-in rules: "+why, "publish a policy that this version of the agent takes, or update the agent")
	}
	if why := status.Endpoint.Loopback; why != "" {
		add(installer.Warning, "loopback.down", why, "free the port, or set another address; it is tried again every 15 s")
	}
	if e := status.Endpoint.Export; e.State == "held" {
		add(installer.Warning, "relay.held", "the receiver of telemetry refuses it: "+e.Detail, "check the destination and its credentials: "+e.Destination)
	}
}

// wayTo connects to the Manager as the agent does and says what it saw: the
// chain, above all, where it is refused.
func (a *app) wayTo(ctx context.Context, identity enroll.Identity) *way {
	network := a.settings.Network()
	w := &way{URL: cmp.Or(a.settings.Text(settings.KeyManagerURL), identity.Manager), Proxy: "direct"}
	if proxy, err := network.ProxyFor(w.URL); err != nil {
		w.Error = err.Error()
		return w
	} else if proxy != "" {
		w.Proxy = proxy
	}
	network.Pin = settings.Pin{Server: w.URL, SPKI: identity.Pin}
	client, err := network.HTTPClient()
	if err != nil {
		w.Error = err.Error()
		return w
	}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(w.URL, "/")+"/api/v1/healthz", nil)
	if err != nil {
		w.Error = err.Error()
		return w
	}
	response, err := client.Do(request)
	if err != nil {
		w.Error = err.Error()
		if refused := new(tls.CertificateVerificationError); errors.As(err, &refused) {
			w.Chain = chain(refused.UnverifiedCertificates)
		}
		return w
	}
	defer response.Body.Close()
	if response.TLS != nil {
		w.Chain = chain(response.TLS.PeerCertificates)
	}
	if response.StatusCode >= 300 {
		w.Error = "the Manager answers " + response.Status
	}
	return w
}

func chain(certificates []*x509.Certificate) (out []string) {
	for _, c := range certificates {
		out = append(out, fmt.Sprintf("%s (by %s, until %s, key %.8x…)", c.Subject, c.Issuer, c.NotAfter.Format(time.DateOnly), settings.Fingerprint(c)))
	}
	return out
}
