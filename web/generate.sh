#!/usr/bin/env bash
# Regenerates src/wire/generated and src/fleet/generated from the schemas. Needs grpcio-tools (extra "dev"), `npm ci`.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
out="${1:-web/src}"
generate() { # folder of the schema, room
    mkdir -p "$out/$2/generated"
    "$python" -m grpc_tools.protoc --proto_path="$1" --plugin=web/node_modules/.bin/protoc-gen-es \
        --es_out="$out/$2/generated" --es_opt=target=ts "$1"/*.proto
}
generate proto/fedsub/v2 wire
generate proto/flower fleet
