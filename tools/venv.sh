#!/bin/sh
# Creates the virtual environment and installs ottla with its test tools, pinned by constraints.txt.
set -eu
python=$1
venv=$2
if [ -z "$python" ]; then
    echo "ottla needs Python 3.11 or newer: none was found on PATH (set PYTHON=/path/to/python3)" >&2
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "ottla needs Python 3.11 or newer: $python is not that" >&2
    exit 1
fi
if ! "$python" -m venv "$venv" 2>/dev/null; then
    # Debian splits venv off its Python; the package is tiny, so take it where no question is asked.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
    fi
    "$python" -m venv "$venv" || {
        echo "cannot create $venv: install your system's package for Python's venv module (Debian: python3-venv)" >&2
        exit 1
    }
fi
install() {
    "$venv/bin/python" -m pip install -q -c constraints.txt "$@" || {
        echo "pip could not install $*: if it says so above, no package index can be reached from here" >&2
        exit 1
    }
}
install --upgrade pip
install -e . --group test
