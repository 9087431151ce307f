#!/bin/bash
# Proves the deb, and the scripts of the rpm, on a booted Debian in a container: deb.sh DIST1 DIST2 (two
# releases by packaging/cmd/pack, the second newer). As root; needs mmdebstrap
# and systemd-container. PINTA_PACKAGES keeps the base system between runs.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${PINTA_PACKAGES:-$PWD/bin/packages} release=bookworm
one=$(echo "$1"/pinta-agent_*_amd64.deb) two=$(echo "$2"/pinta-agent_*_amd64.deb)
work=$(mktemp -d); root=$work/root
base=$cache/debian-$release-3.tar
if [ ! -e "$base" ]; then
  mkdir -p "$cache"
  mmdebstrap --quiet --mode=root --variant=essential --include=systemd,systemd-sysv,dbus,ca-certificates,init-system-helpers,debconf,libpam-systemd,passwd,procps,rpm \
    $release "$base.new.tar" </dev/null >"$work/debootstrap.log" 2>&1 || { tail "$work/debootstrap.log"; exit 1; }
  mv "$base.new.tar" "$base"
fi
mkdir "$root" && tar -C "$root" -xf "$base"

# A release that can't start: the newer one, whose agent ends at once.
dpkg-deb -R "$two" "$work/broken"
sed -i 's/^Version: .*/Version: 99.0.0/' "$work/broken/DEBIAN/control"
printf '#!/bin/sh\nexit 1\n' >"$work/broken/usr/bin/pinta-agent"
(cd "$work/broken" && find usr lib -type f -exec md5sum {} + >DEBIAN/md5sums)
mkdir -p "$root/root/test"
dpkg-deb -Zgzip -z1 -b "$work/broken" "$root/root/test/pinta-agent_99.0.0_amd64.deb" >/dev/null
cp "$one" "$two" "$1"/pinta-agent-*.x86_64.rpm "$2"/pinta-agent-*.x86_64.rpm "$root/root/test/"
CGO_ENABLED=0 go build -o "$root/root/test/" ./packaging/test/booted ./cmd/pinta-manager

cp packaging/test/image.sh "$root/root/test/"
chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive /root/test/image.sh /root/test </dev/null >"$work/image.log" 2>&1 ||
  { echo "FAIL packages in an image"; tail -20 "$work/image.log"; rm -rf "$work"; exit 1; }
echo "ok   packages in an image: enabled, not started, gone without a trace"

systemd-nspawn -q -D "$root" --boot --register=no --keep-unit --private-network --console=pipe >"$work/boot.log" 2>&1 </dev/null &
nspawn=$! leader=
stop() {
  [ -z "$leader" ] || kill -s SIGRTMIN+4 "$leader" 2>/dev/null || true
  for _ in $(seq 40); do kill -0 $nspawn 2>/dev/null || break; sleep 0.5; done
  kill -9 $nspawn 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT
inside() { nsenter -t "$leader" -m -p -u -i -n -C -r -w "$@"; }
for _ in $(seq 240); do
  leader=$(pgrep -P $nspawn -x systemd | head -1 || true)
  [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded' && break
  sleep 0.5
done
[ -n "$leader" ] || { echo "no system came up"; tail "$work/boot.log"; exit 1; }
inside ip link set lo up 2>/dev/null || true
status=0
inside env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root /root/test/booted "/root/test/$(basename "$one")" "/root/test/$(basename "$two")" /root/test/pinta-agent_99.0.0_amd64.deb /root/test || status=$?
if [ $status -ne 0 ]; then inside journalctl -q --no-pager -u pinta-agent | tail -${LOG_LINES:-60}; fi
exit $status
