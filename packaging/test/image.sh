#!/bin/bash
# Proves rpm and deb in an image, from inside a chroot: no systemd runs, nothing is started, all is ready for the
# first boot, and nothing is left of what is removed again: image.sh FOLDER of the packages. Run by deb.sh.
set -euo pipefail
enabled=/etc/systemd/system/multi-user.target.wants/pinta-agent.service
kept() { find /etc/systemd /etc/pinta-agent /etc/github-copilot /usr/lib/pinta-agent /usr/share/pinta-agent /var/lib/pinta-agent /usr/bin/pinta-agent -name '*pinta*' 2>/dev/null || true; }
idle() { [ -L $enabled ] && [ ! -e /var/lib/pinta-agent ] && getent passwd pinta-agent >/dev/null; }
cd "$1"

# Presets that enable nothing are those of Red Hat.
preset=/etc/systemd/system-preset/00-test.preset
mkdir -p "$(dirname $preset)"; echo 'disable *' >$preset
rpm --force-debian --nodeps -i "$(ls pinta-agent-*.rpm | head -1)" 2>&1
idle || { echo "rpm: not ready for the first boot"; exit 1; }
rpm --force-debian --nodeps -U "$(ls pinta-agent-*.rpm | tail -1)" 2>&1 && idle
rpm --force-debian --nodeps -e pinta-agent 2>&1
rm -rf /var/lib/pinta-agent /etc/pinta-agent; userdel pinta-agent
[ -z "$(kept)" ] || { echo "rpm leaves $(kept)"; exit 1; }
rm $preset # the deb heeds an administrator's, as Debian's packages do

debs=$(ls pinta-agent_[0-8]*_amd64.deb)
for deb in $debs; do dpkg -i "$deb"; idle || { echo "$deb: not ready for the first boot"; exit 1; }; done
dpkg -r pinta-agent
dpkg -P pinta-agent
dpkg -P pinta-agent
[ -z "$(kept)" ] && ! getent passwd pinta-agent || { echo "deb leaves $(kept)"; exit 1; }
