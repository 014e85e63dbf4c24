#!/usr/bin/env bash
# Build the packages of the C library, libsockstamp0 and libsockstamp-dev, from the folder that
# scripts/c-library.sh wrote: library.sh FOLDER DIRECTORY. What it needs and whom it names are as in
# build.sh.
set -euo pipefail
library=$1
output=$2
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/package.sh"
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
folder=usr/lib/$triplet

root=$scratch/library
install -D -m 644 "$library/libsockstamp.so" "$root/$folder/libsockstamp.so.$version"
strip --strip-unneeded "$root/$folder/libsockstamp.so.$version"
ln -s "libsockstamp.so.$version" "$root/$folder/libsockstamp.so.0"
add_documents "$root" libsockstamp0
mkdir "$root/DEBIAN"
echo "libsockstamp 0 libsockstamp0 (>= $version)" >"$root/DEBIAN/shlibs"
echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
write_package "$root" libsockstamp0 "$(libraries_of "$library/libsockstamp.so")" <<END
Multi-Arch: same
Section: libs
Priority: optional
Description: Kernel time stamps and zerocopy sends for C programs
 Stamps of sent and received messages by SO_TIMESTAMPING, sends without a copy
 by MSG_ZEROCOPY, and their completions without system calls.
END

root=$scratch/development
install -D -m 644 "$library/libsockstamp.a" "$root/$folder/libsockstamp.a"
ln -s libsockstamp.so.0 "$root/$folder/libsockstamp.so"
crate=$here/../crates/sockstamp-capi
install -D -m 644 "$crate/include/sockstamp.h" "$root/usr/include/sockstamp.h"
install -d "$root/$folder/pkgconfig"
sed "s|@PREFIX@|/usr|; s|@LIBDIR@|/$folder|; s|@VERSION@|$version|" "$crate/sockstamp.pc.in" \
	>"$root/$folder/pkgconfig/sockstamp.pc"
add_documents "$root" libsockstamp-dev
add_manual "$root" "$here"/../docs/man/*.3
write_package "$root" libsockstamp-dev "libsockstamp0 (= $package_version), libc6-dev" <<END
Multi-Arch: same
Section: libdevel
Priority: optional
Description: Kernel time stamps and zerocopy sends for C programs - development files
 The header, the static library, the pages of the manual and what pkg-config
 reads of libsockstamp.
END
