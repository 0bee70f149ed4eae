# Sourced by the checks for other targets, after lib.sh: a recent Rust compiler out of Debian's packages (rustc-web,
# which is kept recent), with what such a target needs. It is unpacked into the cache, not installed.
# shellcheck shell=bash

skip() {
  printf 'skipped: %s\n' "$*"
  exit 77
}

candidate() { LC_ALL=C apt-cache policy "$1" | awk '/Candidate:/ && $2 != "(none)" { print $2 }'; }

# Packages of another architecture are fetched with lists of their own: the system's architectures stay as they are.
apt_of() {
  local architecture=$1 lists=$2
  shift 2
  mkdir -p "$lists"/{lists,cache/archives}/partial
  : >"$lists/status"
  apt-get -qq -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State::lists="$lists/lists" \
    -o Dir::State::status="$lists/status" -o Dir::Cache="$lists/cache" -o APT::Sandbox::User="" "$@"
}

unpack() {
  local root=$1 deb
  shift
  mkdir -p "$root"
  for deb in "$@"; do dpkg-deb --extract "$deb" "$root"; done
}

# Calls a function with a new folder to work in, which is gone afterwards.
in_scratch() {
  local scratch
  scratch=$(mktemp -d "$tools/unpack.XXXXXX")
  "$1" "$scratch"
  rm -rf "$scratch"
}

# The packages' own libraries, not the system's: one LLVM of another build would not load.
wrap() {
  mv "$1/$2" "$1/$2.real"
  # shellcheck disable=SC2016  # the new script's own variables
  printf '#!/bin/sh\nroot=${0%%/bin/*}\nLD_LIBRARY_PATH="$root/lib/x86_64-linux-gnu" exec "$root/bin/%s.real" --sysroot "$root" "$@"\n' \
    "$2" >"$1/$2"
  chmod +x "$1/$2"
}

fetch_compiler() (
  llvm=$(apt-cache depends "libstd-rust-web-$release" | awk '/Depends: libllvm/ { print $2 }')
  cd "$1"
  apt-get -qq -o APT::Sandbox::User="" download rustc-web="$version" libstd-rust-web-dev="$version" \
    "libstd-rust-web-$release=$version" "$llvm"
  unpack root ./*.deb
  wrap root/usr/bin rustc
  wrap root/usr/bin rustdoc
  rm -rf root/usr/share "$rust"
  mv root "$rust"
)

fetch_arm_library() (
  cd "$1"
  apt_of arm64 "$1/apt" update
  apt_of arm64 "$1/apt" download "libstd-rust-web-dev=$version"
  unpack root ./*.deb
  mv root/usr/lib/rustlib/aarch64-unknown-linux-gnu "$rust/usr/lib/rustlib/"
)

fetch_sources() (
  cd "$1"
  apt-get -qq -o APT::Sandbox::User="" download rust-web-src="$version"
  mkdir root
  dpkg-deb --fsys-tarfile ./*.deb | tar -C root -x --wildcards './usr/src/rustc-*/library'
  mkdir -p "$rust/usr/lib/rustlib/src/rust"
  mv root/usr/src/rustc-*/library "$rust/usr/lib/rustlib/src/rust/"
)

# use_debian_rust REMEDY: makes RUSTC and RUSTDOC Debian's compiler; skips, with the remedy, where there is none.
use_debian_rust() {
  command -v apt-get >/dev/null || skip "$1"
  apt_update
  version=$(candidate rustc-web)
  [ -n "$version" ] || skip "$1"
  release=${version#*:}
  release=$(cut -d. -f1,2 <<<"$release")
  local minimum
  minimum=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  dpkg --compare-versions "$release" ge "$minimum" || skip "this Debian's rustc-web is $release, older than $minimum"
  rust="$tools/rust-$version"
  if ! [ -x "$rust/usr/bin/rustc" ]; then
    printf 'fetching rustc-web %s\n' "$version"
    in_scratch fetch_compiler
  fi
  export RUSTC="$rust/usr/bin/rustc" RUSTDOC="$rust/usr/bin/rustdoc"
}

# The standard library for 64-bit ARM Linux, compiled.
with_arm_library() {
  [ -e "$rust/usr/lib/rustlib/aarch64-unknown-linux-gnu" ] || in_scratch fetch_arm_library
}

# Compiler and emulator for 64-bit ARM Linux on x86-64, the standard library from rustup where it has that target, else
# from Debian. The linker is the caller's.
arm_target=aarch64-unknown-linux-gnu
arm_emulator=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
use_arm_rust() {
  [ "$(uname -sm)" = "Linux x86_64" ] || skip "only written for x86-64 Linux"
  [ -e "$(rustc --print target-libdir --target $arm_target)" ] || {
    use_debian_rust "no Rust standard library for $arm_target: rustup target add $arm_target"
    with_arm_library
  }
  need qemu-aarch64 qemu-user
  need_file /usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 libc6-arm64-cross
  unset RUSTFLAGS CARGO_BUILD_TARGET
}

# The standard library's sources, for targets that Debian has none compiled for.
with_library_sources() {
  [ -e "$rust/usr/lib/rustlib/src/rust/library" ] || in_scratch fetch_sources
}
