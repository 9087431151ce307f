#!/bin/sh
# Jamf extension attribute (string): whether hooks are enforced on this Mac. The registered hook is run with a canary event by
# doctor; a service that runs is not taken for enforcement.
agent='/Library/Application Support/Pinta/Agent/pinta-agent'
if [ ! -x "$agent" ]; then
  echo '<result>not installed</result>'
  exit 0
fi
if "$agent" doctor --json >/dev/null 2>&1; then
  version=$("$agent" --version | /usr/bin/awk '{print $NF}')
  echo "<result>enforced ($version)</result>"
else
  # The ids of the error findings, without a JSON parser.
  ids=$("$agent" doctor --json 2>/dev/null | /usr/bin/tr '{' '\n' | /usr/bin/sed -n '/"severity":"error"/s/.*"id":"\([^"]*\)".*/\1/p' | /usr/bin/sort -u | /usr/bin/paste -s -d , -)
  echo "<result>not enforced: ${ids:-no answer}</result>"
fi
