#!/usr/bin/env bash
# Installs sockstamp as `cargo install sockstamp-cli` does, from the crates as they would be
# published and from no other file of this tree: crates.sh. It needs jq.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# Not in a folder of this tree: cargo would find its workspace there.
work=$(mktemp -d /var/tmp/sockstamp-crates.XXXXXX)
trap 'rm -rf "$work"' EXIT

mapfile -t published < <(cargo metadata --no-deps --locked --format-version 1 |
	jq -r '.packages[] | select(.publish == null) | "--package=" + .name')
cargo package --quiet --locked --allow-dirty --no-verify --target-dir "$work/target" "${published[@]}"
cargo vendor --quiet --locked --versioned-dirs "$work/registry" >/dev/null
for crate in "$work"/target/package/*.crate; do
	tar --extract --file "$crate" --directory "$work/registry"
	printf '{"files":{},"package":"%s"}' "$(sha256sum <"$crate" | cut -d ' ' -f 1)" \
		>"$work/registry/$(basename "$crate" .crate)/.cargo-checksum.json"
done

# Without the optimization that takes most of a build, what is compiled is the same.
env --chdir="$work" CARGO_TARGET_DIR="$work/target" CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0 \
	cargo install --quiet --locked --offline --debug --root "$work/installed" \
	--config 'source.crates-io.replace-with="packed"' \
	--config "source.packed.directory=\"$work/registry\"" \
	--version "$version" sockstamp-cli
"$work/installed/bin/sockstamp" --version
echo "crates.sh: cargo install sockstamp-cli works: ${#published[@]} crates of ours"
