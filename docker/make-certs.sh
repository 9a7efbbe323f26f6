#!/bin/sh
# Make everything secret that compose.yml mounts, in secrets/ beside this script:
#
#   server/       ca.crt, ca.key, server.pem, server.key, superexec.secret, nodes/node-<n>.pub
#   device-<n>/   all that device n holds: node.key, server-ca.crt, and in runtime/ what its
#                 SuperNode and SuperExec trust each other by, files as the server's
#
# usage: docker/make-certs.sh [NAME ...]    the server's DNS names and IP addresses for devices
#                                           on other machines
#
# `fedsub deploy certificates` makes them: the installed one, else that of the built server image.
# Nothing is overwritten.
set -eu
umask 077

devices=3
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
out=$here/secrets
image=fedsub-server:${FEDSUB_VERSION:-0.1.0}

die() {
    printf '%s\n' "make-certs.sh: $*" >&2
    exit 1
}

for name in "$@"; do
    case $name in -*) die "got '$name', expected DNS names or IP addresses" ;; esac
done
[ ! -e "$out" ] || die "$out: exists already and devices may trust it; move it away first"

# Containers run as the user who may read these files: docker mounts them as they are.
uid=${FEDSUB_UID:-$(id -u)} gid=${FEDSUB_GID:-$(id -g)}
if [ "$uid" = 0 ]; then
    uid=10001 gid=10001
fi

new=$(mktemp -d "$here/.secrets.XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM

if command -v fedsub >/dev/null; then
    certificates() { fedsub deploy certificates "$@" >&2; }
elif command -v docker >/dev/null && docker image inspect "$image" >/dev/null 2>&1; then
    certificates() {
        docker run --rm --network none --user "$(id -u):$(id -g)" --volume "$new:$new" "$image" \
            fedsub deploy certificates "$@" >&2
    }
else
    die "neither the program fedsub nor the image $image; run 'docker compose build' first"
fi

set -- superlink control localhost 127.0.0.1 "$@"
for name in "$@"; do
    shift
    set -- "$@" --name "$name"
done
certificates --dir "$new/server" --nodes "$devices" "$@"

n=1
while [ "$n" -le "$devices" ]; do
    device=$new/device-$n
    # An authority of its own: no device can pretend to be another's SuperNode, or the server.
    certificates --dir "$device/runtime" --name runtime
    cp "$new/server/ca.crt" "$device/server-ca.crt"
    mv "$new/server/nodes/node-$n" "$device/node.key"
    n=$((n + 1))
done

if [ "$(id -u)" = 0 ]; then
    chown -R "$uid:$gid" "$new"
fi
mv "$new" "$out"
if ! grep -qs '^FEDSUB_UID=' "$here/.env"; then
    printf 'FEDSUB_UID=%s\nFEDSUB_GID=%s\n' "$uid" "$gid" >>"$here/.env"
fi
printf '%s\n' "$out: made, for containers that run as user $uid:$gid (see .env)"
