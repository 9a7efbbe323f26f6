#!/usr/bin/env bash
# The house alone, in the new folder $1: every tracked file but the papers' wing, its folder and lines.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir "$1"
git ls-files -z | grep -zv '^fedsub_papers/' | xargs -0 cp --parents -t "$1"
sed -i '/fedsub_papers/d' "$1/pyproject.toml" "$1/.dockerignore"
