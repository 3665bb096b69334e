#!/bin/sh
# Run by the dev container tools, as root, while the image is built: the binary to /usr/local/bin.
# A file `agentsup` beside this script is taken as it is; else $URL, if it is what $SHA256 says.
# For any POSIX shell: the image may be Alpine.
set -eu
to=/usr/local/bin/agentsup

refuse() {
    echo "agentsup feature: $1" >&2
    exit 1
}

fetch() {
    if command -v curl >/dev/null; then
        curl -fsSL -o "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" "$1"
    else
        refuse "neither curl nor wget is in the image; put the binary beside install.sh"
    fi
}

cd "$(dirname "$0")"
mkdir -p "${to%/*}"
if [ -f agentsup ]; then
    cp agentsup "$to.new"
elif [ -n "${URL:-}" ]; then
    [ -n "${SHA256:-}" ] || refuse "option url without sha256: nobody could tell what was fetched"
    fetch "$URL" "$to.new" || refuse "cannot fetch $URL"
    seen=$(sha256sum "$to.new" | cut -d ' ' -f 1)
    if [ "$seen" != "$SHA256" ]; then
        rm -f "$to.new"
        refuse "$URL has sha256 $seen, not $SHA256"
    fi
else
    refuse "no binary: put it beside install.sh, or give the options url and sha256"
fi
chmod 755 "$to.new"
mv "$to.new" "$to"

# The user of the container is not known yet, and a volume takes the mode of what it covers.
state=${STATEDIR:-/run/agentsup}
mkdir -p "$state"
chmod 1777 "$state"
"$to" --version
