#!/bin/bash
# Proves the rpm: digests, contents, and install, upgrade and erase in a root of
# its own: rpm.sh DIST1 DIST2.
set -euo pipefail
one=$(echo "$1"/pinta-agent-*.x86_64.rpm) two=$(echo "$2"/pinta-agent-*.x86_64.rpm) arm=$(echo "$1"/pinta-agent-*.aarch64.rpm)
root=$(mktemp -d); trap 'rm -rf "$root"' EXIT
for f in "$one" "$two" "$arm"; do rpm -K --nosignature "$f" | grep -q 'digests OK'; done
scripts=$(rpm -qp --scripts "$one") # not piped: a reader that ends early fails the writer
grep -q 'pinta-agent uninstall' <<<"$scripts"
! grep -qE 'debconf|deb-systemd|#include' <<<"$scripts" || { echo "scripts of the deb"; exit 1; }
for s in preinstall postinstall preuninstall postuninstall; do grep -q "^$s scriptlet" <<<"$scripts"; done
[ "$(rpm -qp --qf '%{ARCH}' "$arm")" = aarch64 ]
has() { test -e "$root$1"; }
paths="/usr/bin/pinta-agent /usr/lib/pinta-agent/pinta-hook /usr/lib/systemd/system/pinta-agent.service /etc/pinta-agent/agent.yaml /usr/lib/sysusers.d/pinta-agent.conf"
rpm --root "$root" --initdb
rpm --root "$root" -i --nodeps --noscripts "$one"
for p in $paths; do has $p || { echo "install: no $p"; exit 1; }; done
echo '# ours' >>"$root/etc/pinta-agent/agent.yaml"
rpm --root "$root" -U --nodeps --noscripts "$two"
grep -q '# ours' "$root/etc/pinta-agent/agent.yaml"
[ "$(rpm --root "$root" -q --qf '%{VERSION}' pinta-agent)" = "$(rpm -qp --qf '%{VERSION}' "$two")" ]
! rpm --root "$root" -U --nodeps --noscripts "$one" 2>/dev/null || { echo "downgrade went through"; exit 1; }
rpm --root "$root" -V --nodeps pinta-agent | grep -v ' c /etc/pinta-agent/agent.yaml' | grep . && { echo "files differ from the package"; exit 1; }
# The scripts, run by the shell that runs them, where no service manager is.
for n in 1 2; do rpm -qp --qf '%{PREIN}\n' "$two" | sh -s $n; done
rpm --root "$root" -e --nodeps --noscripts pinta-agent
for p in /usr/bin/pinta-agent /usr/lib/pinta-agent/pinta-hook /usr/lib/systemd/system/pinta-agent.service; do ! has $p || { echo "erase: $p is left"; exit 1; }; done
echo "ok   rpm: install, upgrade, refused downgrade, erase"
