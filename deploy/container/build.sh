#!/bin/sh
# build.sh [TARGET]: everything that an image holds, in one folder (/opt/goqueue), on Debian 12 and as root.
# The Dockerfile runs it, and so does tests/packaging/test_image.py in a root file system of its own.
set -eu
target="${1:-/opt/goqueue}"
sources="$(cd "$(dirname "$0")/../.." && pwd)"

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends \
    ca-certificates debian-archive-keyring gcc git libc6-dev python3 python3-dev python3-venv

python3 -m venv --without-pip "$target"
python3 -m venv /tmp/build
/tmp/build/bin/pip install --quiet --disable-pip-version-check setuptools
# The codec is compiled here; the image has no compiler.
/tmp/build/bin/pip --python "$target/bin/python" install --quiet --disable-pip-version-check \
    --require-hashes --requirement "$sources/requirements-image.lock"
/tmp/build/bin/pip --python "$target/bin/python" install --quiet --disable-pip-version-check \
    --no-deps "$sources"
rm -rf /tmp/build

# etcd, for nodes of a cluster: found by GOQUEUE_CLUSTER_ETCD_BINARY.
XDG_CACHE_HOME=/tmp/etcd "$target/bin/goqueue" cluster install-etcd
install -m 0755 "$(find /tmp/etcd -type f -name etcd)" "$target/bin/etcd"
rm -rf /tmp/etcd

# What a volume is made of where none is mounted: the server's user owns it.
mkdir -p "$target/data"
chown 65532:65532 "$target/data"
"$target/bin/goqueue" --version
