#!/bin/sh
# Build sockstamp_VERSION_ARCH.deb from a binary that was built before: build.sh BINARY DIRECTORY.
# It needs dpkg-dev. The maintainer is DEBFULLNAME, whose address is DEBEMAIL.
set -eu
binary=$1
output=$2
here=$(cd "$(dirname "$0")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -n 1)
package=$version-1
maintainer="${DEBFULLNAME:-sockstamp's authors} <${DEBEMAIL:-sockstamp@localhost}>"
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
scratch=$(mktemp -d)
trap 'rm -rf "$root" "$scratch"' EXIT

install -D -m 755 "$binary" "$root/usr/bin/sockstamp"
install -D -m 644 "$here/systemd/sockstamp-agent.service" \
	"$root/lib/systemd/system/sockstamp-agent.service"
install -D -m 644 "$here/systemd/agent.toml" "$root/etc/sockstamp/agent.toml"
install -D -m 644 "$here/prometheus/sockstamp.rules.yml" \
	"$root/usr/share/doc/sockstamp/sockstamp.rules.yml"
install -D -m 644 "$here/grafana/sockstamp.json" "$root/usr/share/doc/sockstamp/grafana.json"
for page in "$here"/../docs/man/*.1; do
	install -D -m 644 "$page" "$root/usr/share/man/man1/$(basename "$page")"
	gzip -9n "$root/usr/share/man/man1/$(basename "$page")"
done
install -D -m 644 "$here/../docs/completions/sockstamp.bash" \
	"$root/usr/share/bash-completion/completions/sockstamp"

documents=$root/usr/share/doc/sockstamp
install -m 644 "$here/debian/copyright" "$documents/copyright"
install -m 644 "$here/../CHANGELOG.md" "$documents/changelog"
cat >"$documents/changelog.Debian" <<END
sockstamp ($package) unstable; urgency=medium

  * The changes are in changelog.gz.

 -- $maintainer  $(LC_ALL=C date -uR -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$here/../CHANGELOG.md")}")
END
gzip -9n "$documents/changelog" "$documents/changelog.Debian"
install -D -m 644 "$here/debian/lintian-overrides" "$root/usr/share/lintian/overrides/sockstamp"

# The libraries that the binary needs, in the versions that have what it uses: those of this host
# may be newer than others'.
depends=$(
	mkdir "$scratch/debian"
	echo "Source: sockstamp" >"$scratch/debian/control"
	binary=$(realpath "$binary")
	cd "$scratch"
	dpkg-shlibdeps -O "$binary" | sed -n 's/^shlibs:Depends=//p'
)

mkdir "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<END
Package: sockstamp
Version: $package
Architecture: $architecture
Maintainer: $maintainer
Section: net
Priority: optional
Depends: $depends
Description: Latency of each message in the Linux network stack
 Measures TCP and UDP messages of unmodified programs, stage by stage, and
 serves the figures to Prometheus. The service sockstamp-agent is not started
 by itself.
END
# Changes that administrators made to it survive an upgrade.
echo /etc/sockstamp/agent.toml >"$root/DEBIAN/conffiles"
install -m 755 "$here/debian/postinst" "$here/debian/prerm" "$here/debian/postrm" "$root/DEBIAN/"
dpkg-deb --root-owner-group -Zxz -z1 --build "$root" \
	"$output/sockstamp_${package}_$architecture.deb"
