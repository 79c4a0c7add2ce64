#!/usr/bin/env bash
# Installs Chromium for the tests of HTML reports where that is possible. Those tests are skipped without it, so this
# never fails: it says what it could not do.
set -uo pipefail

if command -v chromium >/dev/null || command -v google-chrome >/dev/null; then
  exit 0
fi
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
  echo "chromium is missing and cannot be installed from here (that needs apt-get and root): its tests will be skipped"
  exit 0
fi
if ! (apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends chromium) >/dev/null 2>&1; then
  echo "apt-get could not install chromium: its tests will be skipped"
fi
exit 0
