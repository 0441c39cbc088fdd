#!/bin/sh
# Looks for Java 17+ (real ZooKeeper and Spark need it; nothing else does) and installs it where apt can
# do so without questions. Never fails, and says nothing if there is none: what needs Java says so itself.
set -u
major() {
    java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}
apt() {
    # Without a network it must not take minutes to find that out.
    apt-get -qq -o Acquire::Retries=0 -o Acquire::http::Timeout=10 -o Acquire::https::Timeout=10 "$@" >/dev/null 2>&1
}
install_any() {
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        apt install -y "$package" && return 0
    done
    return 1
}
found=$(major)
[ "${found:-0}" -ge 17 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Java 17+ not found: trying to install it with apt" >&2
    export DEBIAN_FRONTEND=noninteractive
    install_any || { apt update && install_any; }
fi
exit 0
