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
