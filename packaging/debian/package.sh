# What Debian packages of this repository have in common, for scripts that pack one: they set
# $output, the folder that packages are written to, and source this.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -n 1)
package_version=$version-1
architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-The authors of sockstamp} <${DEBEMAIL:-sockstamp@localhost}>"
# Packages of the same tree are the same, byte for byte.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(stat -c %Y "$here/../CHANGELOG.md")}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The files of /usr/share/doc that each package has.
add_documents() { # ROOT PACKAGE
	local documents=$1/usr/share/doc/$2
	install -D -m 644 "$here/debian/copyright" "$documents/copyright"
	install -D -m 644 "$here/../CHANGELOG.md" "$documents/changelog"
	cat >"$documents/changelog.Debian" <<-END
		sockstamp ($package_version) unstable; urgency=medium

		  * The changes are in changelog.gz.

		 -- $maintainer  $(LC_ALL=C date -uR -d "@$SOURCE_DATE_EPOCH")
	END
	gzip -9n "$documents/changelog" "$documents/changelog.Debian"
	sed "s/^sockstamp:/$2:/" "$here/debian/lintian-overrides" |
		install -D -m 644 /dev/stdin "$1/usr/share/lintian/overrides/$2"
}

add_manual() { # ROOT PAGE...
	local root=$1 page section
	shift
	for page; do
		section=$root/usr/share/man/man${page##*.}
		install -D -m 644 "$page" "$section/$(basename "$page")"
		gzip -9n "$section/$(basename "$page")"
	done
}

# The libraries that a file needs, in the versions that have what it uses: those of this host may be
# newer than others'. Nothing for a program without shared libraries.
libraries_of() { # FILE
	local file
	file=$(realpath "$1")
	readelf --dynamic "$file" | grep -q NEEDED || return 0
	mkdir -p "$scratch/debian"
	echo "Source: sockstamp" >"$scratch/debian/control"
	(cd "$scratch" && dpkg-shlibdeps -O "$file" | sed -n 's/^shlibs:Depends=//p')
}

# In kB, as dpkg-gencontrol(1) counts: the same on every file system.
installed_size() { # ROOT
	find "$1" -path "$1/DEBIAN" -prune -o -type f -printf '%s\n' -o -printf '1\n' |
		awk '{ sum += int(($1 + 1023) / 1024) } END { print sum }'
}

# Reads the rest of the control file, its description last.
write_package() { # ROOT PACKAGE DEPENDS
	mkdir -p "$1/DEBIAN"
	{
		cat <<-END
			Package: $2
			Source: sockstamp
			Version: $package_version
			Architecture: $architecture
			Maintainer: $maintainer
			Installed-Size: $(installed_size "$1")
		END
		[ -z "$3" ] || echo "Depends: $3"
		cat
	} >"$1/DEBIAN/control"
	find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zxz -z"${DEB_LEVEL:-1}" --build "$1" \
		"$output/$2_${package_version}_$architecture.deb"
}
