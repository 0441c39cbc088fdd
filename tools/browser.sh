#!/bin/sh
# Looks for Chromium and its driver (the console's tests need them; nothing else does) and installs them where
# apt can do so without questions. Never fails: the tests are skipped by name if there is none.
set -u
apt() {
    # Without a network it must not take minutes to find that out.
    apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 "$@" >/dev/null 2>&1
}
command -v chromium >/dev/null 2>&1 && command -v chromedriver >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Chromium not found: trying to install it with apt" >&2
    export DEBIAN_FRONTEND=noninteractive
    packages="chromium chromium-driver fonts-dejavu-core"
    apt install -y --no-install-recommends $packages || { apt update && apt install -y --no-install-recommends $packages; }
fi
exit 0
