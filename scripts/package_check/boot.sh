#!/bin/sh
# boot.sh ROOT FOLDER: becomes systemd in an overlay of ROOT. Runs in namespaces of its own, which end with it.
set -eu
root=$1
folder=$2
mount --make-rprivate /
mkdir -p "$folder/merged" "$folder/upper" "$folder/work"
merged=$folder/merged
mount -t overlay overlay -o "lowerdir=$root,upperdir=$folder/upper,workdir=$folder/work" "$merged"
mount -t proc -o nosuid,nodev,noexec proc "$merged/proc"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$merged/sys"
mount -t cgroup2 cgroup2 "$merged/sys/fs/cgroup"
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$merged/run"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$merged/tmp"
mount -t tmpfs -o mode=755,nosuid tmpfs "$merged/dev"
for node in null zero full random urandom tty; do
  : >"$merged/dev/$node"
  mount --bind "/dev/$node" "$merged/dev/$node"
done
mkdir "$merged/dev/pts" "$merged/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$merged/dev/pts"
ln -s pts/ptmx "$merged/dev/ptmx"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$merged/dev/shm"
cd "$merged"
pivot_root . mnt
# The machine's own files are out of reach from here on.
exec chroot . /bin/sh -c 'umount -l /mnt && exec env -i container=assay-check PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --show-status=no --log-target=journal'
