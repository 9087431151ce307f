#!/bin/bash
# Compares what deb and rpm hold (fields, modes, owners, scripts, programs) with
# what is meant: contents.sh DIST. Needs dpkg-deb, rpm, cpio, file and shellcheck.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
fail() { echo "contents: $*" >&2; exit 1; }
same() { diff -u "$1" "$2" >&2 || fail "$3 differs: - meant, + in the package"; }

files() { # files LIB DOC: mode and path of what both hold
  cat <<T
-rw------- /etc/pinta-agent/agent.yaml
-rwxr-xr-x /usr/bin/pinta-agent
-rwxr-xr-x /usr/lib/pinta-agent/pinta-hook
-rwxr-xr-x /usr/lib/pinta-agent/packaged/pinta-hook
-rw-r--r-- $1/systemd/system/pinta-agent.service
-rw-r--r-- /usr/lib/sysusers.d/pinta-agent.conf
-rw-r--r-- /usr/share/doc/pinta-agent/agent.schema.json
-rw-r--r-- /usr/share/doc/pinta-agent/agent.yaml.example
-rwxr-xr-x /usr/share/pinta-agent/compliance-check
T
  printf -- '-rw-r--r-- %s\n' "${@:2}"
}
scripts() { # scripts FOLDER SOURCE NAME...: whole, included parts too, and good shell
  local dir=$1 from=$2 name; shift 2
  for name in "$@"; do
    shellcheck -s sh -S warning "$dir/$name" || fail "$name is no good shell script"
    ! grep -n '^#include' "$dir/$name" || fail "$name includes nothing"
    grep -v '^#include' "$from/$name" | while IFS= read -r line; do grep -qxF -- "$line" "$dir/$name" || fail "$name lost: $line"; done
    sed -n 's/^#include //p' "$from/$name" | while read -r part; do
      while IFS= read -r line; do grep -qxF -- "$line" "$dir/$name" || fail "$name lost of $part: $line"; done <packaging/linux/"$part"
    done
  done
}
programs() { # programs ROOT ARCHIVE MACHINE VERSION: those of the plain archive, of the right machine
  mkdir -p "$work/plain" && tar -C "$work/plain" --strip-components=1 -xzf "$2"
  cmp "$1/usr/bin/pinta-agent" "$work/plain/pinta-agent" && cmp "$1/usr/lib/pinta-agent/pinta-hook" "$work/plain/pinta-hook" && cmp "$1/usr/lib/pinta-agent/packaged/pinta-hook" "$work/plain/pinta-hook" || fail "$2 holds other programs"
  grep -q "$3.*statically linked" <<<"$(file "$1/usr/bin/pinta-agent")" || fail "$(file "$1/usr/bin/pinta-agent")"
  [ "$3" != x86-64 ] || grep -qF "$4" <<<"$("$1/usr/bin/pinta-agent" --version)" || fail "not of version $4"
}

for arch in amd64 arm64; do
  machine=x86-64 cpu=x86_64
  [ $arch = amd64 ] || machine=aarch64 cpu=aarch64
  deb=$(echo "$1"/pinta-agent_*_$arch.deb) rpm=$(echo "$1"/pinta-agent-*."$cpu".rpm) archive=$(echo "$1"/pinta-agent_*_linux_$arch.tar.gz)
  version=$(basename "$deb"); version=${version#pinta-agent_}; version=${version%_"$arch".deb}
  packed=${version/-/\~} # how both order a pre-release before its release

  [ "$(dpkg-deb -f "$deb" Package Version Architecture | cut -d' ' -f2 | xargs)" = "pinta-agent $packed $arch" ] || fail "$(dpkg-deb -f "$deb")"
  dpkg-deb -f "$deb" Depends | grep -q 'debconf.*passwd' || fail "depends on $(dpkg-deb -f "$deb" Depends)"
  dpkg-deb -R "$deb" "$work/deb"
  dpkg-deb -c "$deb" | awk '$2 != "root/root" && $2 != "0/0" {exit 1}' || fail "$deb holds files of others"
  files /lib /usr/share/doc/pinta-agent/{changelog.Debian.gz,copyright} /usr/share/lintian/overrides/pinta-agent | sort >"$work/meant"
  dpkg-deb -c "$deb" | awk '$1 !~ /^d/ {print $1, substr($6, 2)}' | sort >"$work/got"
  same "$work/meant" "$work/got" "$deb"
  [ "$(cat "$work/deb/DEBIAN/conffiles")" = /etc/pinta-agent/agent.yaml ] || fail "conffiles $(cat "$work/deb/DEBIAN/conffiles")"
  (cd "$work/deb" && md5sum --quiet -c DEBIAN/md5sums) || fail "md5sums"
  scripts "$work/deb/DEBIAN" packaging/linux/deb config preinst postinst prerm postrm
  [ "$(zcat "$work/deb/usr/share/doc/pinta-agent/changelog.Debian.gz" | head -1)" = "pinta-agent ($version) stable; urgency=medium" ] || fail "the changelog is no Debian changelog"
  cmp "$work/deb/DEBIAN/templates" packaging/linux/deb/templates
  cmp "$work/deb/lib/systemd/system/pinta-agent.service" packaging/linux/pinta-agent.service
  programs "$work/deb" "$archive" $machine "$version"

  [ "$(rpm -qp --qf '%{NAME} %{VERSION} %{RELEASE} %{ARCH} %{LICENSE}' "$rpm")" = "pinta-agent $packed 1 $cpu Apache-2.0" ] || fail "$(rpm -qpi "$rpm")"
  [ "$(rpm -qp --requires "$rpm")" = systemd ] || fail "requires $(rpm -qp --requires "$rpm")"
  files /usr/lib /usr/share/licenses/pinta-agent/LICENSE | sort >"$work/meant"
  rpm -qplv "$rpm" | awk '$1 !~ /^d/ {print $1, $9}' | sort >"$work/got"
  same "$work/meant" "$work/got" "$rpm"
  rpm -qplv "$rpm" | awk '$3 != "root" || $4 != "root" {exit 1}' || fail "$rpm holds files of others"
  [ "$(rpm -qpc "$rpm")" = /etc/pinta-agent/agent.yaml ] || fail "config files $(rpm -qpc "$rpm")"
  mkdir "$work/rpm" # rpm2cpio's status is about an optional field, the size of the archive
  { rpm2cpio "$rpm" || true; } | (cd "$work/rpm" && cpio -id --no-absolute-filenames --quiet 2>&1 | grep -v 'Removing leading' || true)
  for s in preinstall:PREIN postinstall:POSTIN preremove:PREUN postremove:POSTUN; do rpm -qp --qf "%{${s#*:}}\n" "$rpm" >"$work/rpm/${s%:*}"; done
  scripts "$work/rpm" packaging/linux/rpm preinstall postinstall preremove postremove
  cmp "$work/rpm/usr/lib/systemd/system/pinta-agent.service" packaging/linux/pinta-agent.service
  programs "$work/rpm" "$archive" $machine "$version"
  rm -rf "$work"/{deb,rpm,plain}
done
echo "ok   deb and rpm: fields, files, modes, owners, scripts, programs"
