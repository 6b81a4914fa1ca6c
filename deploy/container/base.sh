#!/bin/sh
# A base for the Containerfile without a registry: Debian 13 with its own Python, from Debian's signed packages.
#   deploy/container/base.sh && podman build --format docker -f deploy/container/Containerfile -t sedml-server \
#       --build-arg PYTHON=localhost/debian-python:trixie --target server .
# Needs mmdebstrap, and podman or docker. With SOURCE_DATE_EPOCH, the same packages make the same archive.
set -eu
image=localhost/debian-python:trixie
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates trixie "$folder/base.tar"
"$(command -v podman || command -v docker)" import "$folder/base.tar" "$image" > "$folder/said"
echo "$image"
