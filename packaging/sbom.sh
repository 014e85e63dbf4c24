#!/usr/bin/env bash
# Prints the bill of materials of the program, CycloneDX in JSON: the crates that are in it, their
# versions, licences and checksums.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The tool writes beside each manifest of a workspace.
tar --exclude=./target --exclude=./.git --create . | tar --extract --directory "$work"
scripts/cargo-tool.sh cyclonedx cyclonedx --quiet --format json --describe binaries \
	--target "$(uname -m)-unknown-linux-musl" --features static \
	--manifest-path "$work/crates/sockstamp-cli/Cargo.toml" >&2
sed "s|$work|.|g" "$work/crates/sockstamp-cli/sockstamp_bin.cdx.json"
