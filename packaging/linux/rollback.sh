# A version that does not get ready gives way to the one that ran before.
previous=/var/lib/pinta-agent/previous
keep_previous() {
  rm -rf "$previous" "$previous.used"
  if [ -d /run/systemd/system ] && systemctl -q is-active pinta-agent.service; then
    # An upgrade without a way back is better than none.
    { mkdir -m 0700 "$previous" && cp -p /usr/bin/pinta-agent /usr/lib/pinta-agent/pinta-hook "$previous/"; } || rm -rf "$previous"
  fi
}
# Until it is stopped, the version before puts its own hook back over a new one:
# so the package brings the hook twice, and this comes between stop and start.
put_packaged() {
  cp -p /usr/lib/pinta-agent/packaged/pinta-hook /usr/lib/pinta-agent/pinta-hook.new && mv -f /usr/lib/pinta-agent/pinta-hook.new /usr/lib/pinta-agent/pinta-hook
}
put_back() {
  cp -p "$previous/pinta-hook" /usr/lib/pinta-agent/pinta-hook.new && mv -f /usr/lib/pinta-agent/pinta-hook.new /usr/lib/pinta-agent/pinta-hook
  cp -p "$previous/pinta-agent" /usr/bin/pinta-agent.new && mv -f /usr/bin/pinta-agent.new /usr/bin/pinta-agent
  mv "$previous" "$previous.used"
  systemctl restart pinta-agent.service || true
  echo "pinta-agent: the new version did not get ready (journalctl -u pinta-agent); the version before runs again." >&2
  echo "pinta-agent: install a working version to finish." >&2
}
