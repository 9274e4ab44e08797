#!/usr/bin/env bash
# Installs a build, and moves the tree: whatever uses it afterwards proves that it can be moved.
#
# Usage: install.sh SOURCE_DIR BUILD_DIR PREFIX
set -euo pipefail

source_dir=$1 build=$2 prefix=$3
staging=$prefix.before
rm -rf "$prefix" "$staging"
cmake --install "$build" --prefix "$staging"
mv "$staging" "$prefix"

# Nothing that consumers read knows where it was made. Only binaries may, in debug information.
if grep -rIF -e "$staging" -e "$build" -e "$source_dir" "$prefix" | grep -vF "$prefix/share/doc"; then
  echo "the files above name the place of the build or of the installation"
  exit 1
fi
