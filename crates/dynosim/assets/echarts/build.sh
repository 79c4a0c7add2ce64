#!/usr/bin/env bash
# Builds echarts.min.js from the versions pinned in package-lock.json. Needs node and npm.
#
#   ./build.sh          writes echarts.min.js
#   ./build.sh --check  builds, and fails if the result is not the file that is here
set -euo pipefail
cd "$(dirname "$0")"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp package.json package-lock.json entry.js "$work"
# esbuild's install script only looks for its own binary, which is a package of its own.
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund --silent)

# What the licences of the parts ask to go along with copies: reports hold this file.
version=$(node -p "require('$work/node_modules/echarts/package.json').version")
{
  printf '/*!\nApache ECharts %s (https://echarts.apache.org), Apache License 2.0, reduced to what DynoSim draws.\n\n' "$version"
  cat NOTICE
  printf '\nIt contains zrender:\n\n'
  cat LICENSE-zrender
  printf '\n\nparts of d3.js:\n\n'
  cat LICENSE-d3
  printf '\nand tslib:\n\n'
  cat LICENSE-tslib
  printf '*/\n'
} >"$work/head.js"

(cd "$work" && node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --global-name=echarts \
  --target=es2020 --legal-comments=none --define:process.env.NODE_ENV='"production"' --log-level=warning \
  --outfile=body.js)
cat "$work/head.js" "$work/body.js" >"$work/echarts.min.js"

if [ "${1:-}" = --check ]; then
  cmp "$work/echarts.min.js" echarts.min.js
  echo "echarts.min.js is what the pinned versions give"
else
  cp "$work/echarts.min.js" echarts.min.js
fi
sha256sum echarts.min.js
