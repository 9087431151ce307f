# The account that runs guard and relay, without a home, shell or password.
if ! getent passwd pinta-agent >/dev/null; then
  if command -v systemd-sysusers >/dev/null && [ -e /usr/lib/sysusers.d/pinta-agent.conf ]; then
    systemd-sysusers pinta-agent.conf
  else
    useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin pinta-agent
  fi
fi
