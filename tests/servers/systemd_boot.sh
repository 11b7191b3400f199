#!/bin/sh
# systemd_boot.sh ROOT SCRATCH GROUP: systemd as the first process of the system in ROOT, which it does not change: what it
# writes is in memory below SCRATCH. Processes, mounts, network and control groups are its own. Ends with systemd.
set -eu
root=$1 scratch=$2 group=$3
mkdir -p "$group" "$scratch/written" "$scratch/root"
echo $$ > "$group/cgroup.procs"
exec unshare --mount --pid --uts --ipc --net --cgroup --fork --kill-child=SIGKILL --propagation private sh -euc "
mount -t tmpfs -o mode=755 tmpfs '$scratch/written'
mkdir '$scratch/written/upper' '$scratch/written/work'
mount -t overlay -o 'lowerdir=$root,upperdir=$scratch/written/upper,workdir=$scratch/written/work' overlay '$scratch/root'
cd '$scratch/root'
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
for folder in dev run; do mount -t tmpfs -o mode=755 tmpfs \$folder; done
mount -t tmpfs tmpfs tmp
for device in null zero full random urandom tty; do
    touch dev/\$device
    mount --bind /dev/\$device dev/\$device
done
mkdir dev/pts dev/shm before
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs tmpfs dev/shm
pivot_root . before
umount -l /before
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /usr/lib/systemd/systemd --unit=multi-user.target --show-status=no < /dev/null
"
