#!/bin/bash
# Opens the macOS package with the readers that others wrote: pkg.sh DIST.
set -euo pipefail
pkg=$(echo "$1"/pinta-agent-*.pkg)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
7z t "$pkg" >/dev/null
bsdtar -tf "$pkg" | sort >"$work/list"
for f in Distribution base.pkg/PackageInfo base.pkg/Bom base.pkg/Payload base.pkg/Scripts; do grep -qx "$f" "$work/list" || { echo "no $f"; exit 1; }; done
bsdtar -xf "$pkg" -C "$work"
mkdir "$work/root" "$work/scripts"
gzip -dc "$work/base.pkg/Payload" | (cd "$work/root" && cpio -id --quiet)
gzip -dc "$work/base.pkg/Scripts" | (cd "$work/scripts" && cpio -id --quiet)
for s in "$work"/scripts/*; do shellcheck -S warning "$s"; [ -x "$s" ]; done
file "$work/root/Library/Application Support/Pinta/Agent/pinta-agent" | grep -q 'universal binary with 2 architectures'
[ "$(readlink "$work/root/usr/local/bin/pinta-agent")" = '/Library/Application Support/Pinta/Agent/pinta-agent' ]
python3 - "$work/root" <<'P'
import plistlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
daemon = plistlib.load(open(root / "Library/LaunchDaemons/pinta-agent.plist", "rb"))
assert daemon["KeepAlive"] is True and daemon["ProgramArguments"][1] == "run", daemon
program = root / daemon["ProgramArguments"][0].lstrip("/")
assert program.stat().st_mode & 0o111, program
app = plistlib.load(open(root / "Applications/Pinta Agent.app/Contents/Info.plist", "rb"))
assert (root / "Applications/Pinta Agent.app/Contents/MacOS" / app["CFBundleExecutable"]).stat().st_mode & 0o111
P
echo "ok   pkg: 7z, bsdtar, cpio, plists"

# Its scripts in a folder, with launchd and the directory service as little programs: a version that says "bad" never listens.
mac=$work/mac; mkdir -p "$mac/bin" "$mac/Library/LaunchDaemons" "$mac/var/run/pinta-agent"
agent="$mac/Library/Application Support/Pinta/Agent"; mkdir -p "$agent/state"
cat >"$mac/bin/launchctl" <<F
#!/bin/sh
case \$1 in
print) [ -e "$mac/loaded" ] ;;
bootout) rm -f "$mac/loaded" "$mac/var/run/pinta-agent/agent.sock" ;;
bootstrap)
  [ ! -e "$mac/loaded" ] || exit 5
  touch "$mac/loaded"
  grep -q bad "$agent/pinta-agent" || python3 -c 'import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$mac/var/run/pinta-agent/agent.sock"
  ;;
esac
F
printf '#!/bin/sh\nexit 0\n' >"$mac/bin/sleep"
chmod +x "$mac/bin/launchctl" "$mac/bin/sleep"
for s in preinstall postinstall; do
  sed -e "s#/bin/launchctl#$mac/bin/launchctl#; s#/bin/sleep#$mac/bin/sleep#; s#/usr/sbin/chown#true#; s#/usr/bin/dscl#true#; s#/Library/#$mac/Library/#g; s#/var/run/#$mac/var/run/#g" "$work/scripts/$s" >"$mac/$s"
done
install_version() { # as the installer: VERSION
  sh "$mac/preinstall" - - / && for f in pinta-agent pinta-hook; do echo "$1 $f" >"$agent/$f"; done && echo "$1" >"$mac/Library/LaunchDaemons/pinta-agent.plist" && sh "$mac/postinstall" - - / 2>"$mac/said"
}
state() { cat "$agent/pinta-agent" "$agent/pinta-hook" "$mac/Library/LaunchDaemons/pinta-agent.plist"; ls "$agent/state"; [ ! -S "$mac/var/run/pinta-agent/agent.sock" ] || echo ready; }
install_version one
[ "$(state)" = "$(printf 'one pinta-agent\none pinta-hook\none\nready')" ]
install_version two
[ "$(state)" = "$(printf 'two pinta-agent\ntwo pinta-hook\ntwo\nready')" ]
if install_version bad; then exit 1; fi
grep -q 'the version before runs again' "$mac/said"
[ "$(state)" = "$(printf 'two pinta-agent\ntwo pinta-hook\ntwo\nready')" ]
"$mac/bin/launchctl" bootout
if install_version bad || grep -q 'the version before' "$mac/said"; then exit 1; fi # nothing ran before
echo "ok   pkg: installs, upgrades, goes back to the version before"
