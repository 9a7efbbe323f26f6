#!/usr/bin/env bash
# Regenerates tests/generated from the schemas: what the tests compare our messages with. Needs grpcio-tools (extra "dev"), `npm ci`.
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
out="${1:-web/tests/generated}"
generate() { # folder of the schema, room
    mkdir -p "$out/$2"
    "$python" -m grpc_tools.protoc --proto_path="$1" --plugin=web/node_modules/.bin/protoc-gen-es \
        --es_out="$out/$2" --es_opt=target=ts "$1"/*.proto
}
generate proto/fedsub/v2 wire
generate proto/flower fleet
