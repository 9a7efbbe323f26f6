#!/usr/bin/env bash
# Regenerates fedsub_core/wire/v2/ from the schema. Needs grpcio-tools (extra "dev").
set -euo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"
out="${1:-fedsub_core/wire/v2}"
mkdir -p "$out"
"$python" -m grpc_tools.protoc --proto_path=proto/fedsub/v2 --python_out="$out" --pyi_out="$out" exchange.proto
printf '%s\n' '"""Generated from proto/fedsub/v2 by proto/generate.sh; do not edit."""' >"$out/__init__.py"
