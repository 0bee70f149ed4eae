# Sourced by the scripts beside it: messages, tools installed on demand, and faults planted into the CUDA kernels.
# shellcheck shell=bash

# Pinned tools are kept here, outside the checkout, so that a fresh clone finds them again.
tools="${ASSAY_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/assay}"

heading() { printf '\n== %s\n' "$*"; }

die() {
  printf '\nerror: %s\n' "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo -n "$@"
  else
    die "needs root or sudo for: $*"
  fi
}

# one_at_a_time COMMAND...: apt-get does not wait for another one, and steps run side by side.
one_at_a_time() (
  flock 8
  "$@"
) 8>"$tools/apt.lock"

# The lists are fetched once a run: on a fresh machine there are none.
apt_update() {
  [ -n "${apt_updated:-}" ] || one_at_a_time as_root apt-get update -qq || die "apt-get update failed"
  apt_updated=yes
}

# need COMMAND PACKAGE...: installs Debian's packages unless the command is there already.
need() {
  local command=$1
  shift
  command -v "$command" >/dev/null && return
  apt_install "$command" "$@"
}

# need_file PATTERN PACKAGE...: the same for what is no command; any file that the pattern fits will do.
need_file() {
  local pattern=$1
  shift
  compgen -G "$pattern" >/dev/null && return
  apt_install "$pattern" "$@"
}

# apt_install WHAT PACKAGE...: WHAT is what was missing, for the message where it cannot be installed.
apt_install() {
  local what=$1
  shift
  command -v apt-get >/dev/null || die "$what is missing, and there is no apt-get to install it: install $* by hand"
  printf 'installing %s\n' "$*"
  apt_update
  one_at_a_time packages_installed "$@" >"$tools/apt.log" 2>&1 || die "cannot install $*:
$(tail -n 20 "$tools/apt.log")"
}

# packages_installed PACKAGE...: a dpkg that was killed is finished first, for apt-get refuses all work until then.
packages_installed() {
  as_root env DEBIAN_FRONTEND=noninteractive dpkg --configure -a &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# need_python_venv REQUIREMENTS: sets python to an interpreter that has these packages, and only these.
need_python_venv() {
  need python3 python3
  python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install "Python's venv" python3-venv
  local folder fresh
  folder="$tools/python-$({ python3 --version; cat "$1"; } | sha256sum | cut -c1-12)"
  python=$folder/bin/python
  [ -x "$python" ] && return
  printf 'installing the packages of %s\n' "$1"
  fresh=$(mktemp -d "$tools/python-new.XXXXXX")
  { python3 -m venv "$fresh" && PIP_USER=0 "$fresh/bin/python" -m pip install --quiet --disable-pip-version-check \
    --only-binary=:all: --requirement "$1"; } || { rm -rf "$fresh"; die "cannot install the packages of $1 with pip"; }
  # A concurrent run may have been faster: its folder is the same. What runs is bin/python, which finds its place itself.
  mv -T "$fresh" "$folder" 2>/dev/null || rm -rf "$fresh"
  [ -x "$python" ] || die "cannot write $folder"
}

# need_promtool: sets promtool to Prometheus' own tool, out of Debian's package: installed, that would start a server.
need_promtool() {
  promtool=$(command -v promtool) && return
  local folder fresh
  folder="$tools/prometheus"
  promtool=$folder/usr/bin/promtool
  [ -x "$promtool" ] && return
  command -v apt-get >/dev/null || die "promtool is missing, and there is no apt-get to fetch it: install prometheus by hand"
  printf 'fetching prometheus\n'
  apt_update
  fresh=$(mktemp -d "$tools/prometheus-new.XXXXXX")
  { (cd "$fresh" && apt-get download -qq prometheus >"$tools/apt.log" 2>&1) &&
    dpkg-deb --extract "$fresh"/prometheus_*.deb "$fresh"; } || {
    rm -rf "$fresh"
    die "cannot fetch prometheus:
$(tail -n 20 "$tools/apt.log")"
  }
  rm -f "$fresh"/prometheus_*.deb
  # A concurrent run may have been faster.
  mv -T "$fresh" "$folder" 2>/dev/null || rm -rf "$fresh"
  [ -x "$promtool" ] || die "cannot write $folder"
}

# portable_build FOLDER TARGET [CARGO ARGUMENT...]: a build into FOLDER that says nothing of where it was made, for every
# Linux with glibc 2.28 (2018) or newer, whatever this machine has: zig links, and compiles what is C.
portable_build() {
  local folder=$1 target=$2 map
  shift 2
  need_python_venv packaging/requirements.txt
  mkdir -p "$folder"
  folder=$(cd "$folder" && pwd)
  local maps=("$folder=/target" "$PWD=/source" "${CARGO_HOME:-$HOME/.cargo}=/cargo" "$("${RUSTC:-rustc}" --print sysroot)=/rust")
  local rust=() c=()
  for map in "${maps[@]}"; do
    rust+=("--remap-path-prefix=$map")
    c+=("-ffile-prefix-map=$map")
  done
  env PATH="$(dirname "$python"):$PATH" CARGO_ENCODED_RUSTFLAGS="$(IFS=$'\x1f'; printf '%s' "${rust[*]}")" \
    CFLAGS="${c[*]} ${CFLAGS:-}" CXXFLAGS="${c[*]} ${CXXFLAGS:-}" CARGO_INCREMENTAL=0 \
    cargo zigbuild --target "$target.2.28" --locked --bins -p assay-miner -p assay-validator -p assay-pages \
    --target-dir "$folder" "$@"
}

# read_faults FILE: reads a table such as kernels/cuda/check/faults.txt into arrays, one element a fault.
# shellcheck disable=SC2034
read_faults() {
  names=() kernels=() units=() drivers=() changed=() old=() new=()
  local line last=-1 value
  while IFS= read -r line || [ -n "$line" ]; do
    value=${line#* }
    case $line in
      '#'* | '') continue ;;
      'fault '*)
        last=$((last + 1))
        names[last]=$value drivers[last]='' old[last]='' new[last]=''
        ;;
      'kernel '*) kernels[last]=$value ;;
      'unit '*) units[last]=$value ;;
      'driver '*) drivers[last]=$value ;;
      'file '*) changed[last]=$value ;;
      -*) old[last]+=${old[last]:+$'\n'}${line#-} ;;
      +*) new[last]+=${new[last]:+$'\n'}${line#+} ;;
      *) die "$1: not a line of the table: $line" ;;
    esac
  done <"$1"
}

# plant NUMBER FOLDER: a copy of the kernels' sources with that fault, whose old text must be there exactly once.
plant() {
  cp -r kernels/cuda "$2"
  local file=$2/${changed[$1]} was=${old[$1]} text rest
  text=$(<"$file")
  rest=${text/"$was"/}
  [ "$rest" != "$text" ] || return 1
  [ "${rest/"$was"/}" = "$rest" ] || return 1
  printf '%s\n' "${text/"$was"/"${new[$1]}"}" >"$file"
}

mkdir -p "$tools"
