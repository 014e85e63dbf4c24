#!/usr/bin/env bash
# Makes an image of `sockstamp agent` from a program without shared libraries: image.sh BINARY
# DIRECTORY. It is an OCI layout in a tar file, as `podman load`, `skopeo copy oci-archive:…` and
# `ctr image import` read it. It needs umoci.
set -euo pipefail
binary=$(realpath "$1")
output=$(realpath "$2")
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layout=$work/layout
image=$layout:$version
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y CHANGELOG.md)}" +%Y-%m-%dT%H:%M:%SZ)
history=(--history.created "$created" --history.created_by "packaging/oci/image.sh"
	--history.author sockstamp)

umoci init --layout "$layout"
umoci new --image "$image"
# The authorities are for [otlp] with https.
root=$work/root
install -D -m 755 "$binary" "$root/usr/bin/sockstamp"
install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
find "$root" -exec touch --date="$created" {} +
umoci insert --image "$image" "${history[@]}" --rootless "$root/usr" /usr
umoci insert --image "$image" "${history[@]}" --rootless "$root/etc" /etc
umoci config --image "$image" "${history[@]}" --created "$created" \
	--os linux --architecture "$architecture" \
	--config.entrypoint /usr/bin/sockstamp --config.cmd agent --config.exposedports 9776/tcp \
	--config.label "org.opencontainers.image.title=sockstamp" \
	--config.label "org.opencontainers.image.version=$version" \
	--config.label "org.opencontainers.image.licenses=(Apache-2.0 OR MIT) AND GPL-2.0-only"
umoci gc --layout "$layout"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$created" \
	--create --file "$output/sockstamp-$version-$architecture.oci.tar" -C "$layout" .
