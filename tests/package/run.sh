#!/bin/sh
# run.sh BUILD_DIR WORK_DIR: installs the build tree, then builds and runs an application against what was installed,
# once with find_package and once, after the tree was moved, with pkg-config.
# From the environment, each with a default: CMAKE, CC, CXX, LIBDIR (below the prefix), PKG_CONFIG.
set -eu

build=$1
work=$2
app=$(cd "$(dirname "$0")" && pwd)
: "${CMAKE:=cmake}" "${CC:=cc}" "${CXX:=c++}" "${LIBDIR:=lib}" "${PKG_CONFIG:=pkg-config}"

rm -rf "$work"
mkdir -p "$work"

echo "package: install"
"$CMAKE" --install "$build" --prefix "$work/prefix" >"$work/install.log"

echo "package: find_package"
"$CMAKE" -S "$app" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$CC" \
  -DCMAKE_CXX_COMPILER="$CXX" -DTESSERA_INSTALLED_INCLUDE="$work/prefix/include" -G Ninja >"$work/configure.log"
"$CMAKE" --build "$work/cmake" >"$work/build.log" || { cat "$work/build.log"; exit 1; }
"$work/cmake/app"
"$work/cmake/train_app"
if [ -e "$work/prefix/include/tessera/c_api.h" ]; then "$work/cmake/c_app"; fi

echo "package: a version that is not there is refused"
mkdir "$work/newer"
printf 'cmake_minimum_required(VERSION 3.25)\nproject(newer LANGUAGES CXX)\nfind_package(Tessera 99 REQUIRED)\n' \
  >"$work/newer/CMakeLists.txt"
if "$CMAKE" -S "$work/newer" -B "$work/newer/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_COMPILER="$CXX" \
  -G Ninja >"$work/newer.log" 2>&1; then
  echo "find_package(Tessera 99) was accepted"
  exit 1
fi
grep -q '"99"' "$work/newer.log" || { cat "$work/newer.log"; exit 1; }

echo "package: pkg-config, after the tree was moved"
mv "$work/prefix" "$work/moved"
PKG_CONFIG_PATH=$work/moved/$LIBDIR/pkgconfig
export PKG_CONFIG_PATH
# Unquoted on purpose: the flags are words.
# shellcheck disable=SC2046
"$CXX" -std=c++20 $("$PKG_CONFIG" --cflags tessera) "$app/main.cc" $("$PKG_CONFIG" --libs tessera) -o "$work/pc_app"
LD_LIBRARY_PATH=$work/moved/$LIBDIR "$work/pc_app"
if [ -e "$work/moved/include/tessera/c_api.h" ]; then
  # shellcheck disable=SC2046
  "$CC" -std=c11 $("$PKG_CONFIG" --cflags tessera) "$app/c_main.c" $("$PKG_CONFIG" --libs tessera) -o "$work/pc_c_app"
  LD_LIBRARY_PATH=$work/moved/$LIBDIR "$work/pc_c_app"
fi
