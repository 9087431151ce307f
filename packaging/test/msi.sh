#!/bin/bash
# Proves the MSI: its tables, and under wine the whole life with a real Manager on
# loopback: msi.sh DIST1 DIST2 MANAGER CERTIFICATE, DIST2 signed by it. Needs wine64, msitools, osslsigncode,
# openssl, binutils-mingw-w64-x86-64 and python3.
set -u
one=$(echo "$1"/pinta-agent-*-x64.msi) two=$(echo "$2"/pinta-agent-*-x64.msi) arm=$(echo "$1"/pinta-agent-*-arm64.msi) manager=$3 cert=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
export WINEDEBUG=-all WINEDLLOVERRIDES="mscoree=;mshtml=" WINEPREFIX=$work/prefix
unset DISPLAY
passed=0 failed=0
limit=600 # seconds of the whole: what has not run by then has failed
ok() { # ok NAME COMMAND...
  local name=$1 start=$SECONDS; shift
  if [ $SECONDS -gt $limit ]; then echo "FAIL $name: out of time"; failed=$((failed + 1)); return; fi
  if "$@" >"$work/out" 2>&1; then echo "ok   $name ($((SECONDS - start)) s)"; passed=$((passed + 1)); else echo "FAIL $name ($((SECONDS - start)) s)"; tail -5 "$work/out" | cut -c1-400; failed=$((failed + 1)); fi
}
# Each start of a program under wine takes a second or two on a busy machine.
within() { local seconds=$1 end; end=$((SECONDS + $1)); shift; while ! "$@"; do [ $SECONDS -lt $end ] || { echo "not within $seconds s"; return 1; }; sleep 1; done; }
w() { timeout 30 wine "$@"; }
install() { local want=$1; shift; timeout 120 wine msiexec "$@" /qn; local got=$?; [ $got = "$want" ] || { echo "exit status $got, want $want"; return 1; }; }
cleanup() { wineserver -k 2>/dev/null; [ -z "${pid:-}" ] || kill "$pid" 2>/dev/null; wait 2>/dev/null; rm -rf "$work"; }
trap cleanup EXIT

table() { msiinfo export "$1" "$2"; }
holds() { table "$1" "$2" | tr -d '\r' | grep -qE -- "$3"; }
no_actions() { # only actions that show an error (19) or set a property (51)
  local types; types=$(msiinfo tables "$1" | grep -qx CustomAction || exit 0; table "$1" CustomAction | tail -n +4 | cut -f2)
  for t in $types; do case $((t & 63)) in 19 | 51) ;; *) echo "action of type $t"; return 1 ;; esac; done
}
for f in "$one" "$arm"; do
  n=$(basename "$f")
  ok "$n: no action runs code" no_actions "$f"
  ok "$n: the token property is hidden" holds "$f" Property '^MsiHiddenProperties.*ENROLLMENT_TOKEN'
  ok "$n: and secure" holds "$f" Property '^SecureCustomProperties.*ENROLLMENT_TOKEN'
  ok "$n: the token's value is written on demand only" holds "$f" Component '^cToken.*ENROLLMENT_TOKEN'
  ok "$n: and locked" holds "$f" MsiLockPermissionsEx '^lpToken.rToken.Registry.D:PAI\(A;CI;KA;;;SY\)\(A;CI;KA;;;BA\)'
  ok "$n: the data folder is locked" holds "$f" MsiLockPermissionsEx '^lpData.DATADIR.CreateFolder.D:PAI'
  ok "$n: recovery actions" holds "$f" MsiServiceConfigFailureActions '^sfAgent.pinta-agent'
  ok "$n: delayed start" holds "$f" MsiServiceConfig '^scDelayed.pinta-agent.3.3.1'
  ok "$n: an upgrade leaves a token that waits" holds "$f" Component '^cToken.*.276.ENROLLMENT_TOKEN'
  ok "$n: a pre-release gives way to its release" holds "$f" Upgrade '.513..WIX_UPGRADE_DETECTED'
  ok "$n: no default for the token" bash -c "! msiinfo export '$f' Property | grep -q '^ENROLLMENT_TOKEN'"
done
summary() { msiinfo suminfo "$1" | grep -q "$2"; }
ok "x64 template" summary "$one" 'x64;1033'
identity() { msiinfo export "$1" Property | grep ProductCode; }
distinct() { [ "$(for f in "$@"; do identity "$f"; done | sort -u | wc -l)" = $# ]; }
ok "each package is a product of its own" distinct "$one" "$two" "$arm"
ok "arm64 template" summary "$arm" 'Arm64;1033'

# Signed while it was packed, verified, and refused when changed.
genuine() { osslsigncode verify -CAfile "$cert" -in "$1"; }
ok "the signature holds" genuine "$two"
msiextract -C "$work/files" "$two" >/dev/null
find "$work/files" -name '*.exe' >"$work/programs"
ok "both programs are in it" test "$(wc -l <"$work/programs")" = 2
while read -r f; do ok "$(basename "$f"): so does its signature" genuine "$f"; done <"$work/programs"
python3 - "$two" "$work/tampered.msi" <<'P'
import sys
d = bytearray(open(sys.argv[1], 'rb').read()); i = d.find(b'MSCF') + 4096; d[i] ^= 1
open(sys.argv[2], 'wb').write(d)
P
refused() { ! genuine "$1"; }
ok "a changed file is refused" refused "$work/tampered.msi"

# The Manager.
(cd "$work" && exec "$manager" serve --data "$work/manager" --listen 127.0.0.1:0 --ready-file "$work/ready") >"$work/manager.log" 2>&1 &
pid=$!
within 20 test -s "$work/ready"
url=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["url"])' "$work/ready")
key=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["adminKeyFile"])' "$work/ready")
cat >"$work/policy.yaml" <<'P'
mode: enforce
timeoutMs: 3000
rules:
  - {id: deny_delete, on: tool_input, tools: [shell], action: deny, message: Deleting is not allowed here., when: "commands.exists(c, c.name == 'rm')"}
P
"$manager" policy apply -f "$work/policy.yaml" --server "$url" --admin-key-file "$key" --json >/dev/null
token=$("$manager" token create --server "$url" --admin-key-file "$key" --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["token"])')

timeout 180 wineboot -i >/dev/null 2>&1; timeout 60 wineserver -w
# Wine 8 has no bcryptprimitives.dll, which every Go program needs: a forwarder without code.
printf '.globl DllMain\nDllMain:\n mov $1,%%eax\n ret\n' >"$work/e.s"
x86_64-w64-mingw32-as "$work/e.s" -o "$work/e.o"
x86_64-w64-mingw32-ld -shared -e DllMain --subsystem windows -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" "$work/e.o" "$here/bcryptprimitives.def"
wineserver -p # services end with the last command otherwise
c=$WINEPREFIX/drive_c
agent="$c/Program Files/Pinta/Agent/pinta-agent.exe"
service() { w sc query pinta-agent | tr -d '\r' | grep -q "$1"; }
status() { w "$agent" status --json 2>/dev/null | python3 -c "import json,sys; s=json.load(sys.stdin); print($1)"; }
enrolled() { [ "$(status 's["deviceId"] != "" and s["config"]["version"] > 0')" = True ]; }
scrubbed() { ! w reg query 'HKLM\Software\Pinta\Agent\Enrollment' /v Token 2>/dev/null | grep -q pinta_; }
hook() { # hook COMMAND: the machine's entry, as the host would run it
  python3 - "$c/ProgramData/GitHub/Copilot/policy.d/90-pinta.json" "$1" "$c/Program Files/Pinta/Agent/pinta-hook.exe" <<'P'
import json, os, subprocess, sys
e = json.load(open(sys.argv[1]))["hooks"]["PreToolUse"][0]
payload = {"hook_event_name": "PreToolUse", "session_id": "00000000-0000-4000-8000-000000000001", "timestamp": "2026-01-02T03:04:05.678Z",
           "cwd": "C:\\repo", "tool_name": "Bash", "tool_input": {"command": sys.argv[2], "description": "probe"}}
p = subprocess.run(["wine", sys.argv[3]], input=json.dumps(payload).encode(), capture_output=True, env={**os.environ, **e["env"], "COPILOT_CLI": "1"}, timeout=20)
print(p.stdout.decode(), p.stderr.decode()[-300:], p.returncode)
P
}
denies() { hook 'rm -rf build' | tee /dev/stderr | grep -q 'Deleting is not allowed here'; }
permits() { local out; out=$(hook 'echo hello'); echo "$out"; ! grep -q deny <<<"$out" && grep -q ' 0$' <<<"$out"; }

answers() { [ "$(status 's["service"]["running"]')" = True ]; }
# The first handle that go-winio makes of a pipe takes no client on Windows; wine's does, and nobody serves it.
knock() { timeout 20 wine "$agent" status; hook 'echo knock'; } >/dev/null 2>&1
ok "install" install 0 /i "$one" "ENROLLMENT_TOKEN=$token" /l*v "$work/install.log"
ok "programs are there" test -f "$agent"
ok "service runs" within 30 service RUNNING
knock
ok "enrolled at first start" within 60 enrolled
ok "the token is scrubbed" within 30 scrubbed
ok "the service answers on its pipe" within 30 answers
device=$(status 's["deviceId"]')
ok "a hook denies" within 40 denies
ok "a hook permits" permits
ok "upgrade without properties" install 0 /i "$two"
ok "service runs again" within 30 service RUNNING
knock
same() { [ -n "$device" ] && [ "$(status 's["deviceId"]')" = "$device" ]; }
ok "the enrolment is kept" within 30 same
ok "a hook denies after the upgrade" within 40 denies
ok "downgrade is refused" install 67 /i "$one" # 1603 modulo 256
ok "service still runs" service RUNNING
ok "uninstall" install 0 /x "$two"
gone() { ! service STATE; }
ok "service is gone" gone
ok "programs are gone" test ! -e "$agent"
ok "state survives" test -d "$c/ProgramData/Pinta/Agent/state"

# A service that does not start takes the whole installation back.
cp "$one" "$work/broken.msi"
msibuild "$work/broken.msi" -q "UPDATE \`ServiceInstall\` SET \`Arguments\`='nosuchcommand' WHERE \`ServiceInstall\`='siAgent'"
broken() { timeout 120 wine msiexec /i "$work/broken.msi" /qn; [ $? != 0 ]; }
ok "a service that fails fails the installation" broken
ok "and rolls it back" test ! -e "$agent"
ok "its service too" gone
echo "$passed passed, $failed failed"
[ $failed = 0 ] || { tail -20 "$c/ProgramData/Pinta/Agent/state/agent.log" 2>/dev/null; exit 1; }
