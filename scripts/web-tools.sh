#!/usr/bin/env bash
# Makes sure that what the web page needs is installed: web-tools.sh node|chromium|fonts-inter|pngquant. Debian's packages are installed as root only.
set -euo pipefail

node_is_new() {
  command -v npm >/dev/null &&
    node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)' 2>/dev/null
}

install() {
  export DEBIAN_FRONTEND=noninteractive
  apt-get install --quiet --yes --no-install-recommends "$@" >/dev/null 2>&1 || {
    apt-get update --quiet >/dev/null
    apt-get install --quiet --yes --no-install-recommends "$@" >/dev/null
  }
}

case $1 in
node)
  node_is_new || {
    echo "web page: Node 20.19 or newer with npm was not found. Install it (Debian 13 and newer: apt-get install nodejs npm)." >&2
    exit 1
  }
  ;;
chromium)
  browser=${CHROMIUM:-/usr/bin/chromium}
  [ -x "$browser" ] && exit
  if [ -n "${CHROMIUM:-}" ] || [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "web page: $browser was not found. Run \`sudo apt-get install chromium\`, or name another one: make CHROMIUM=/path/to/chromium" >&2
    exit 1
  fi
  echo "web page: installing Debian's chromium" >&2
  install chromium fonts-dejavu-core
  ;;
fonts-inter)
  # Without it the pictures have the machine's default font.
  dpkg-query --show fonts-inter >/dev/null 2>&1 || install fonts-inter fonts-noto-cjk
  ;;
pngquant)
  command -v pngquant >/dev/null || install pngquant
  ;;
esac
