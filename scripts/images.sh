# Sourced by the checks that build the last stage of deploy/container's images, after lib.sh: with buildah, offline, in
# $work. In place of Debian's image stands a folder, in place of the build stage the programs that the check has.
# shellcheck shell=bash

export BUILDAH_ISOLATION=chroot
quiet_buildah() { buildah --root "$work/store" --runroot "$work/run" "$@"; }

# What buildah mounted goes first: no file below a mount is to be deleted.
clean_images() {
  quiet_buildah umount --all >/dev/null 2>&1 || true
  if mountpoint -q "$work/store/overlay"; then umount "$work/store/overlay"; fi
  rm -rf --one-file-system "$work"
}

# image NAME FOLDER ARCHITECTURE: an image with these files.
image() {
  local container folder
  container=$(quiet_buildah from --arch "$3" scratch)
  folder=$(quiet_buildah mount "$container")
  cp -a "$2/." "$folder"
  quiet_buildah config --arch "$3" --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  quiet_buildah commit --quiet "$container" "$1" >/dev/null
  quiet_buildah rm "$container" >/dev/null
}

# build_images DEBIAN PROGRAMS ARCHITECTURE: both images, from these folders. Of each, $work has the path of its files
# (miner.root) and its configuration (miner.json).
build_images() {
  local name container built=$work/built/out
  mkdir -p "$work/context" "$built"
  install -d -m 0700 "$built/state/assay"
  cp "$2/assay-miner" "$2/assay-validator" "$built/"
  image docker.io/library/debian:12-slim "$1" "$3"
  image localhost/built:1 "$work/built" "$3"
  for name in miner validator; do
    quiet_buildah bud --format docker --pull-never --arch "$3" --build-context build=container-image://localhost/built:1 \
      --file "deploy/container/Dockerfile.$name" --tag "assay-$name:check" "$work/context" >"$work/$name.log" 2>&1 || {
      tail -n 20 "$work/$name.log"
      die "the image of the $name does not build"
    }
    container=$(quiet_buildah from --arch "$3" "assay-$name:check")
    quiet_buildah mount "$container" >"$work/$name.root"
    # The image's own variables and health check.
    quiet_buildah inspect --type image "assay-$name:check" >"$work/$name.json"
  done
}
