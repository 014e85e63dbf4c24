#!/usr/bin/env bash
# Links the C library as it is installed, from the archive that cargo makes of it: c-library.sh
# libsockstamp_capi.a FOLDER
#
# cargo's archive defines symbols of Rust's standard library, by which two such archives clash in
# one program; and rustc gives a shared library a version script, beside which the linker takes no
# other. So all of it becomes one object first, that shows nothing but the functions of sockstamp.h.
set -euo pipefail

archive=$1
folder=$2
# Both rise when programs have to be compiled anew.
soname=libsockstamp.so.0
version=SOCKSTAMP_0

mkdir -p "$folder"
made=$(mktemp -d "$folder/link.XXXXXX")
trap 'rm -rf "$made"' EXIT

nm --quiet --defined-only --extern-only --format=just-symbols "$archive" |
	grep '^sockstamp_' | sort -u >"$made/functions"
{
	printf '%s {\nglobal:\n' "$version"
	sed 's/.*/\t&;/' "$made/functions"
	printf 'local:\n\t*;\n};\n'
} >"$made/version-script"

# Groups of sections would be merged with those of another Rust library by their names.
sed 's/^/--undefined=/' "$made/functions" |
	xargs ld --relocatable --gc-sections --force-group-allocation \
		-o "$made/sockstamp.o" "$archive"
# Bitcode of several objects in one is none; binutils' plugin of LLVM reads it all the same.
objcopy --remove-section=.llvmbc --remove-section=.llvmcmd "$made/sockstamp.o"
# Keep symbols weak that the standard library uses where the C library has them.
readelf --symbols --wide "$archive" |
	awk '$5 == "WEAK" && $7 == "UND" { print $8 }' | sort -u >"$made/weak"
objcopy --keep-global-symbols="$made/functions" --weaken-symbols="$made/weak" "$made/sockstamp.o"

ar rcsD "$made/libsockstamp.a" "$made/sockstamp.o"
cc -shared -Wl,--gc-sections -Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,-soname,"$soname" \
	-Wl,--version-script,"$made/version-script" -o "$made/libsockstamp.so" \
	"$made/sockstamp.o" -lgcc_s -lm -lc
mv "$made"/libsockstamp.{a,so} "$folder"
