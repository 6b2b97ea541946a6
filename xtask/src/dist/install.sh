#!/bin/sh
# Installs the command nexus for this user, without root: see `sh install.sh --help`.
set -eu

version=@VERSION@
archive=@ARCHIVE@
sha256=@SHA256@
# Everything is in functions that the last line calls, so that a script whose download was cut off does nothing.

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

usage() {
    cat << 'END'
Installs the command nexus for this user, without root.

Usage: sh install.sh [--prefix FOLDER] [--from ADDRESS]

  --prefix FOLDER   install below this folder; default: $HOME/.local
  --from ADDRESS    URL or folder with the archive; default: $NEXUS_INSTALL_FROM, else where this release is published

Examples:
  sh install.sh
  sh install.sh --prefix "$HOME/programs" --from ./downloads

`nexus uninstall` removes what this script wrote.
END
}

check_platform() {
    [ "$(uname -s)" = Linux ] && [ "$(uname -m)" = x86_64 ] \
        || fail "this archive is for Linux on x86-64, and this is $(uname -s) on $(uname -m): build it from source with cargo"
    # The linker of glibc has this name on every distribution. musl has another one.
    [ -e /lib64/ld-linux-x86-64.so.2 ] \
        || fail "this system has no glibc, which the program needs: build it from source with cargo"
    for program in tar gzip sha256sum; do
        command -v "$program" > /dev/null || fail "$program is missing"
    done
}

# fetch ADDRESS FILE
fetch() {
    case $1 in
        http://* | https://*)
            if command -v curl > /dev/null; then
                curl --fail --location --silent --show-error --output "$2" "$1"
            elif command -v wget > /dev/null; then
                wget --quiet --output-document="$2" "$1"
            else
                fail "neither curl nor wget is there: install one of them, or download $1 and name its folder with --from"
            fi ;;
        *) cp -- "$1" "$2" ;;
    esac || fail "$1 could not be read"
}

# Lists the folders of a path below the prefix that are not there yet, outermost first.
missing_folders() {
    case $1 in */*) missing_folders "${1%/*}" ;; esac
    [ -d "$prefix/$1" ] || echo "folder $1"
}

# A file that another program installed is not replaced.
refuse_others() {
    # `nexus uninstall` looks for the list beside the real folder of the program.
    [ ! -L "$prefix/bin" ] || fail "$prefix/bin is a link: name the folder above its target with --prefix"
    [ -e "$prefix/bin/nexus" ] || [ -L "$prefix/bin/nexus" ] || return 0
    [ -f "$prefix/$receipt" ] && return
    fail "$prefix/bin/nexus exists and was not written by this script: remove it, or choose another folder with --prefix"
}

# Writes what this script creates, then creates it. If it is interrupted, it can be started again, and the list is enough to remove
# everything.
install_files() {
    (cd "$temporary/$archive" && find . -type f | sed 's|^\./||' | sort) > "$temporary/files"
    {
        # Folders of an earlier installation are this one's too.
        if [ -f "$prefix/$receipt" ]; then sed -n '/^folder /p' "$prefix/$receipt"; elif [ -n "$created" ]; then echo "folder ."; fi
        { cat "$temporary/files"; echo "$receipt"; } | while read -r file; do missing_folders "${file%/*}"; done
    } | awk '!seen[$0]++' > "$temporary/receipt"
    { cat "$temporary/files"; echo "$receipt"; } | sed 's/^/file /' >> "$temporary/receipt"
    # Files that only the earlier version had stay on the list until they are removed.
    old=$(mktemp -p "$temporary")
    [ ! -f "$prefix/$receipt" ] || sed -n 's/^file //p' "$prefix/$receipt" > "$old"
    mkdir -p -- "$prefix/${receipt%/*}"
    cp -- "$temporary/receipt" "$prefix/$receipt.new"
    while read -r file; do
        grep -qxF "file $file" "$temporary/receipt" || rm -f -- "$prefix/$file"
    done < "$old"
    mv -f -- "$prefix/$receipt.new" "$prefix/$receipt"
    while read -r file; do
        mkdir -p -- "$prefix/${file%/*}"
        # A new file and a rename, since a running program cannot be overwritten.
        cp -- "$temporary/$archive/$file" "$prefix/$file.new"
        mv -f -- "$prefix/$file.new" "$prefix/$file"
    done < "$temporary/files"
}

main() {
    prefix=${HOME:+$HOME/.local}
    from=${NEXUS_INSTALL_FROM:-@BASE_URL@}
    receipt=share/nexus/installed
    while [ $# -gt 0 ]; do
        case $1 in
            --prefix) [ -n "${2-}" ] || fail "--prefix needs a folder"; prefix=$2; shift ;;
            --from) [ -n "${2-}" ] || fail "--from needs an address"; from=$2; shift ;;
            -h | --help) usage; exit 0 ;;
            *) fail "unknown argument $1: see --help" ;;
        esac
        shift
    done
    [ -n "$prefix" ] || fail "HOME is not set: name a folder with --prefix"
    [ -n "$from" ] || fail "this script names no address: name the folder or URL of $archive.tar.gz with --from"
    check_platform
    case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
    prefix=${prefix%/}
    created=
    [ -d "$prefix" ] || created=yes
    refuse_others

    temporary=$(mktemp -d)
    trap 'rm -rf -- "$temporary"' EXIT
    trap 'exit 1' HUP INT TERM
    echo "fetching $from/$archive.tar.gz"
    fetch "$from/$archive.tar.gz" "$temporary/$archive.tar.gz"
    found=$(sha256sum "$temporary/$archive.tar.gz" | cut -d ' ' -f 1)
    [ "$found" = "$sha256" ] || fail "the archive's SHA-256 is $found, and should be $sha256: nothing was installed"
    tar -xzf "$temporary/$archive.tar.gz" -C "$temporary" || fail "the archive could not be unpacked: nothing was installed"
    "$temporary/$archive/bin/nexus" --version > /dev/null || fail "the program does not run here: nothing was installed"

    mkdir -p -- "$prefix" || fail "$prefix cannot be created: choose another folder with --prefix"
    [ -w "$prefix" ] || fail "$prefix cannot be written: choose another folder with --prefix"
    install_files
    echo "installed nexus $version:"
    echo "  $prefix/bin/nexus"
    echo "  completions of bash, zsh and fish, the manual page and the licences below $prefix/share"
    case :${PATH:-}: in
        *:"$prefix/bin":*) ;;
        *) echo "$prefix/bin is not in your PATH. Add this line to ~/.profile, and log in again:"
            echo "  export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
    echo "next: \`nexus demo\` shows a task on simulated vendors, \`nexus status\` finds yours. \`nexus uninstall\` removes it."
}

main "$@"
