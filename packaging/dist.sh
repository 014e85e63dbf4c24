#!/usr/bin/env bash
# Makes all that a release has: dist.sh DIRECTORY, which must not exist. Nothing in it depends on
# the folder, or on the time of the build.
set -euo pipefail
if [ -e "$1" ]; then
	echo "dist.sh: $1 exists: remove it, or name another folder" >&2
	exit 1
fi
finished=$(realpath "$1")
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
name=sockstamp-$version-$(uname -m)-linux
# The commit's time, and of what git does not know, the change log's.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
export SOURCE_DATE_EPOCH DEB_LEVEL=9
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
output=$work/release
mkdir "$output"

packaging/binaries.sh "$work"
packaging/debian/build.sh "$work/sockstamp" "$output"
packaging/debian/library.sh "$work/c-library" "$output"
packaging/oci/image.sh "$work/sockstamp" "$output"

rpmbuild --quiet -bb --define "_rpmdir $output" \
	--define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
	--define "_topdir $work/rpm" --define "_buildhost localhost" \
	--define "use_source_date_epoch_as_buildtime 1" \
	--define "clamp_mtime_to_source_date_epoch 1" \
	--define "released $version" --define "sources $PWD" --define "program $work/sockstamp" packaging/rpm/sockstamp.spec

tree=$work/$name
install -D -m 755 "$work/sockstamp" "$tree/sockstamp"
install -D -m 644 -t "$tree/man" docs/man/*.1
install -D -m 644 -t "$tree/completions" docs/completions/*
install -D -m 644 -t "$tree/docs" docs/*.md
install -D -m 644 -t "$tree/agent" packaging/systemd/* packaging/prometheus/sockstamp.rules.yml \
	packaging/grafana/sockstamp.json
install -m 644 README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT LICENSES/* "$tree"
archive() { # NAME PATH...
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
		--create -C "$work" "${@:2}" | xz -9 >"$output/$1.tar.xz"
}
archive "$name" "$name"
# gdb and perf find it by its name, beside the program.
archive "$name-debug" sockstamp.debug

packaging/sbom.sh >"$output/sockstamp-$version.cdx.json"
(cd "$output" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
mv "$output" "$finished"
ls -l "$finished"
