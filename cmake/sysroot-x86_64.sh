#!/bin/bash
# sysroot-x86_64.sh DIR: unpacks the amd64 packages that the x86-64 bundle is linked with into DIR. Nothing is installed,
# and the machine's list of architectures stays as it is. DIR is kept as long as the packages to unpack are the same.
set -euo pipefail
PACKAGES="llvm-22-dev libmlir-22-dev libabsl-dev libabsl20220623 libgtest-dev libgmock-dev libzstd-dev zlib1g-dev"
TOOLS=/usr/lib/llvm-22

root=$(realpath -m "$1")
# The tools that run here must be of the version that the archives are of.
stamp="$PACKAGES, beside llvm-22-dev $(dpkg-query -W -f='${Version}' llvm-22-dev), $(sha256sum <"$0")"
if [ "$(cat "$root/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi

work=$root.apt
rm -rf "$root" "$work"
mkdir -p "$root" "$work"/{lists/partial,cache/archives/partial,debs}
apt=(apt-get -qq -o APT::Architecture=amd64 -o APT::Architectures::=amd64 -o Dir::State::lists="$work/lists"
     -o Dir::Cache="$work/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User="$(id -un)")
"${apt[@]}" update
# shellcheck disable=SC2086  # the list is words
(cd "$work/debs" && "${apt[@]}" download $PACKAGES)
for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$root"; done
rm -rf "$work"

# mlir-tblgen and the like run on this machine.
rm -rf "$root$TOOLS/bin"
ln -s $TOOLS/bin "$root$TOOLS/bin"
# LLVM's export files want every file that they name to be there. What these packages do not hold is not linked: empty
# files will do.
cat "$root$TOOLS"/lib/cmake/{llvm/LLVMExports,mlir/MLIRTargets}*.cmake |
  grep -oE '\$\{_IMPORT_PREFIX\}/[^"; )]+' | sort -u | sed "s#\${_IMPORT_PREFIX}#$root$TOOLS#" |
  while read -r file; do
    case $file in
      */bin/*) ;;
      *) [ -e "$file" ] || { rm -f "$file"; : >"$file"; } ;;
    esac
  done
# Absolute links would leave the folder.
find "$root" -type l -lname '/*' ! -path "$root$TOOLS/bin" | while read -r link; do
  ln -sfnr "$root$(readlink "$link")" "$link"
done
echo "$stamp" >"$root/stamp"
