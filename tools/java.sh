#!/bin/sh
# Looks for Java 17+ (real ZooKeeper and Spark need it; nothing else does) and installs it where apt can
# do so without questions. Never fails: what needs Java says so itself.
set -u
major() {
    java -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}
found=$(major)
[ "${found:-0}" -ge 17 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Java 17+ not found: installing it with apt" >&2
    export DEBIAN_FRONTEND=noninteractive
    for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
        { apt-get install -y -qq "$package" || { apt-get update -qq && apt-get install -y -qq "$package"; }; } \
            >/dev/null 2>&1 && break
    done
    found=$(major)
    [ "${found:-0}" -ge 17 ] && exit 0
fi
echo "Java 17 or newer was not found: install it (Debian: openjdk-17-jre-headless) to use ZooKeeper and Spark; the rest works without" >&2
exit 0
