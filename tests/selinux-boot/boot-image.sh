#!/bin/bash
# boot-image.sh - perfwind under an enforcing SELinux: a small Debian of packages with our policy module and our units in it is
# booted by qemu (no KVM needed), and inside.sh is what it does there.  Minutes, and 1.5 GB next to O: `make check-selinux-boot`.
# SELINUX_BOOT_ACCEL=kvm where that works.
set -u
cd "$(dirname "$0")/../.." || exit 1
O=${O:-build}
case $O in /*) ;; *) O=$PWD/$O ;; esac
here=$PWD/tests/selinux-boot
work=$O-selinux-boot # next to it: make reads every .d file below O
root=$work/root
suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
tests=/usr/lib/perfwind-test

no() { echo "$1"; exit 77; }
failed() { echo "not ok $1: $2"; exit 1; }
[ "$(id -u)" = 0 ] || no "needs root: a system is installed and labelled"
[ "$(uname -m)" = x86_64 ] || no "the machine that is booted is an x86-64 one"
for tool in qemu-system-x86_64 mmdebstrap setfiles mke2fs cpio bunzip2; do
	PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || no "$tool is not installed (.ci/deps selinux-boot)"
done
[ -f /usr/share/selinux/devel/Makefile ] || no "selinux-policy-dev is not installed"

# ---- what is fetched, once: a system, and a kernel with SELinux in it
mkdir -p "$work" || exit 1
if [ ! -f "$work/base.tar" ]; then
	mmdebstrap --format=tar --variant=minbase --include=systemd-sysv,selinux-policy-default,policycoreutils,semodule-utils,util-linux,procps \
		"$suite" "$work/base.tar.part" >"$work/fetch.log" 2>&1 </dev/null && mv "$work/base.tar.part" "$work/base.tar" ||
		{ tail -n 3 "$work/fetch.log"; no "a system of packages could not be had ($suite)"; }
fi
if ! ls "$work"/kernel/boot/vmlinuz-* >/dev/null 2>&1; then
	mkdir -p "$work/packages" "$work/kernel"
	package=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
	(cd "$work/packages" && apt-get download -qq "$package") >>"$work/fetch.log" 2>&1 &&
		dpkg-deb -x "$work/packages/$package"*.deb "$work/kernel" || no "no kernel package: $package"
fi
kernel=$(ls "$work"/kernel/boot/vmlinuz-* | tail -n 1)
grep -q '^CONFIG_SECURITY_SELINUX=y' "$work"/kernel/boot/config-* || no "the kernel package has no SELinux"

# ---- the system, with perfwind in it
rm -rf "$root"
mkdir "$root"
tar -C "$root" -xf "$work/base.tar" || failed system "it does not unpack"
"${MAKE:-make}" -s --no-print-directory install O="$O" DESTDIR="$root" PREFIX=/usr >"$work/install.log" 2>&1 || failed install "see $work/install.log"
# Its libraries, which are this release's too.
for library in $(ldd "$O/perfwind" | awk '/=> \// { print $3 }'); do
	[ -e "$root$library" ] || cp "$library" "$root$library" || failed libraries "$library"
done
mkdir -p "$root$tests" "$work/policy"
gcc -O1 -Wall -Wextra -o "$root$tests/forbidden" "$here/forbidden.c" &&
	cp "$O/tests/programs/recursion" "$root$tests/" && cp "$here/inside.sh" "$root$tests/inside" || failed programs "they do not build"
cp "$here"/*.service "$root/etc/systemd/system/"
touch "$root/etc/perfwind.conf"
sed -i 's/^SELINUX=.*/SELINUX=enforcing/' "$root/etc/selinux/config"
echo "/dev/vda / ext4 defaults 0 0" >"$root/etc/fstab"
: >"$root/etc/machine-id"
mkdir -p "$root/etc/systemd/system.conf.d"
# an emulated machine takes its time
printf '[Manager]\nDefaultTimeoutStartSec=1800\nDefaultTimeoutStopSec=300\n' >"$root/etc/systemd/system.conf.d/slow.conf"
chroot "$root" systemd-sysusers >>"$work/install.log" 2>&1
chroot "$root" systemctl enable perfwind.service perfwind-test.service >>"$work/install.log" 2>&1 || failed units "see $work/install.log"
chroot "$root" systemctl mask getty.target serial-getty@ttyS0.service getty@tty1.service console-getty.service apt-daily.timer apt-daily-upgrade.timer \
	dpkg-db-backup.timer e2scrub_all.timer fstrim.timer >>"$work/install.log" 2>&1

# ---- its policy, and every file's label
cp selinux/* "$work/policy/"
"${MAKE:-make}" -s -C "$work/policy" -f /usr/share/selinux/devel/Makefile NAME=default SHARE=/usr/share/selinux perfwind.pp >"$work/policy.log" 2>&1 ||
	failed policy "see $work/policy.log"
cp "$work/policy/perfwind.pp" "$root/root/"
chroot "$root" semodule -n -i /root/perfwind.pp >>"$work/policy.log" 2>&1 || { tail -n 5 "$work/policy.log"; failed semodule "the module is not taken"; }
contexts=$root/etc/selinux/default/contexts/files/file_contexts
printf '%s/forbidden\t--\tsystem_u:object_r:perfwind_exec_t:s0\n%s/(inside|recursion)\t--\tsystem_u:object_r:bin_t:s0\n' $tests $tests >"$contexts.local"
PATH=$PATH:/usr/sbin:/sbin setfiles -r "$root" "$contexts" "$root" >"$work/label.log" 2>&1 || failed labels "see $work/label.log"
rm -f "$work/disk"
truncate -s 900M "$work/disk"
PATH=$PATH:/usr/sbin:/sbin mke2fs -q -F -t ext4 -d "$root" "$work/disk" >>"$work/label.log" 2>&1 || failed disk "see $work/label.log"

# ---- its first program, with the drivers of its disk in the order in which they need each other
initrd=$work/initrd
rm -rf "$initrd"
mkdir -p "$initrd"/{modules,dev,disk}
gcc -static -O1 -Wall -Wextra -o "$initrd/init" "$here/init.c" && mknod "$initrd/dev/console" c 5 1 || failed init "it does not build"
n=0
for module in virtio/virtio_ring virtio/virtio virtio/virtio_pci_legacy_dev virtio/virtio_pci_modern_dev virtio/virtio_pci block/virtio_blk; do
	cp "$work"/kernel/lib/modules/*/kernel/drivers/$module.ko "$initrd/modules/$n.ko" 2>/dev/null && n=$((n + 1)) # else it is built in
done
(cd "$initrd" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd.gz"

# ---- boot
log=$work/console.log
nice -n 15 timeout "${SELINUX_BOOT_TIMEOUT:-3600}" qemu-system-x86_64 -accel "${SELINUX_BOOT_ACCEL:-tcg}" -cpu max -m 1024 -smp 2 \
	-nographic -no-reboot -net none -kernel "$kernel" -initrd "$work/initrd.gz" -drive "file=$work/disk,if=virtio,format=raw,cache=unsafe" \
	-append "console=ttyS0 security=selinux enforcing=1 audit=1 sysctl.kernel.printk_ratelimit=0 log_buf_len=4M systemd.show_status=0 loglevel=3 panic=-1" \
	>"$log" 2>&1 </dev/null
tr -d '\r' <"$log" | grep -aE '^(ok|not ok|skip) |^    '
if ! grep -aq '^end of the tests' "$log"; then
	tail -n 20 "$log" | cut -c 1-200
	failed boot "the machine did not come to the end; see $log"
fi
rm -rf "$root" "$work/disk" "$initrd"
