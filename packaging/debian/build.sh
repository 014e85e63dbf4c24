#!/usr/bin/env bash
# Build sockstamp_VERSION_ARCH.deb from a binary that was built before: build.sh BINARY DIRECTORY.
# It needs dpkg-dev. The maintainer is DEBFULLNAME, whose address is DEBEMAIL.
set -euo pipefail
binary=$1
output=$2
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/package.sh"
root=$scratch/root

install -D -m 755 "$binary" "$root/usr/bin/sockstamp"
install -D -m 644 "$here/systemd/sockstamp-agent.service" \
	"$root/usr/lib/systemd/system/sockstamp-agent.service"
install -D -m 644 "$here/systemd/agent.toml" "$root/etc/sockstamp/agent.toml"
documents=$root/usr/share/doc/sockstamp
install -D -m 644 "$here/prometheus/sockstamp.rules.yml" "$documents/sockstamp.rules.yml"
install -D -m 644 "$here/grafana/sockstamp.json" "$documents/grafana.json"
# Help, settings and alerts name pages by docs/PAGE.
install -D -m 644 -t "$documents/docs" "$here"/../docs/*.md
add_documents "$root" sockstamp
add_manual "$root" "$here"/../docs/man/*.1

completions=$here/../docs/completions
share=$root/usr/share
install -D -m 644 "$completions/sockstamp.bash" "$share/bash-completion/completions/sockstamp"
install -D -m 644 "$completions/_sockstamp" "$share/zsh/vendor-completions/_sockstamp"
install -D -m 644 "$completions/sockstamp.fish" "$share/fish/vendor_completions.d/sockstamp.fish"

mkdir "$root/DEBIAN"
# Changes that administrators made to it survive an upgrade.
echo /etc/sockstamp/agent.toml >"$root/DEBIAN/conffiles"
install -m 755 "$here/debian/postinst" "$here/debian/prerm" "$here/debian/postrm" "$root/DEBIAN/"
write_package "$root" sockstamp "$(libraries_of "$binary")" <<END
Section: net
Priority: optional
Description: Latency of each message in the Linux network stack
 Measures TCP and UDP messages of unmodified programs, stage by stage, and
 serves the figures to Prometheus. The service sockstamp-agent is not started
 by itself.
END
