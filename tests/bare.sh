#!/bin/bash
# bare.sh [ROOT] - runs the two commands of the README on a fresh Debian: `make demo` and `make check`, from a clean clone of HEAD.
#
# The fresh Debian is a root file system with apt, make and git (mmdebstrap minbase), entered by chroot with mount and
# pid namespaces of its own.  Its package sources, keys, certificates and proxies are this machine's.
# ROOT: a folder that is used again when it exists, and kept; default: a new one, removed at the end.
# COMMANDS="make demo": other commands than these two.  AS=USER: run them as an ordinary user, which is created.
# Needs root, the network, about 6 GB, and half an hour on two idle CPUs.  Prints the last line of each command, its status
# and its duration.  The status is 0 when both commands succeeded.
set -eu -o pipefail
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo "check-bare needs root: it makes a root file system and namespaces" >&2; exit 1; }
[ -n "$(git rev-parse --verify -q HEAD)" ] || { echo "check-bare needs a git clone" >&2; exit 1; }
[ -z "$(git status --porcelain --untracked-files=no)" ] || echo "check-bare: note: uncommitted changes are not tested"

root=${1:-}
keep=$root
[ -n "$root" ] || root=$(mktemp -d "${TMPDIR:-/tmp}/perfwind-bare.XXXXXX")
log=$(mktemp)
cleanup() {
	rm -f "$log"
	[ -n "$keep" ] || rm -rf --one-file-system "$root"
}
trap cleanup EXIT
started=$SECONDS

if [ ! -e "$root/etc/debian_version" ]; then
	echo "check-bare: making a Debian root file system"
	sources=()
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
		[ ! -s "$file" ] || sources+=("$file")
	done
	mmdebstrap --quiet --variant=minbase --include=make,git --aptopt='APT::Install-Recommends "false"' \
		"" "$root" "${sources[@]}" 2>"$log" || { tail -n 20 "$log" >&2; exit 1; }
	# What apt and git need here they need there: keys, certificates, settings.
	rm -rf "$root/etc/apt"
	for path in /etc/apt /usr/share/keyrings /etc/ssl/certs /usr/local/share/ca-certificates /usr/share/ca-certificates; do
		[ ! -e "$path" ] || { mkdir -p "$root$path" && cp -a "$path/." "$root$path/"; }
	done
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
	chmod 755 "$root"
fi

# A clone of its own: no hard link to the objects here.
rm -rf "$root/perfwind"
git clone -q --no-local . "$root/perfwind"
if [ -n "${AS:-}" ]; then
	grep -q "^$AS:" "$root/etc/passwd" || chroot "$root" useradd -m "$AS"
	chroot "$root" chown -R "$AS:" /perfwind
fi

# Proxies and certificates of this environment, and what tests/run takes from it; nothing else.
environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb)
while IFS= read -r name; do
	case $name in *_proxy | *_PROXY | SSL_CERT_* | *_CA_BUNDLE | RETRY | REQUIRE_ALL) environment+=("$name=${!name}") ;; esac
done < <(compgen -e)

# in_root COMMAND : a shell command in the clone, in the root.
in_root() {
	unshare --mount --pid --fork --kill-child --propagation private bash -c '
		mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" || exit 1
		root=$1 user=$2 command=$3
		shift 3
		if [ -n "$user" ]; then
			exec env -i "$@" HOME="/home/$user" chroot --userspec="$user:$user" "$root" sh -c "cd /perfwind && $command"
		fi
		exec env -i "$@" HOME=/root chroot "$root" sh -c "cd /perfwind && $command"' \
		in_root "$root" "${AS:-}" "$1" "${environment[@]}"
}

status=0
results=()
IFS=';' read -ra commands <<<"${COMMANDS:-make demo;make check}"
for command in "${commands[@]}"; do
	echo "check-bare: $command"
	began=$SECONDS
	result=0
	in_root "$command" 2>&1 | tee "$log" || result=$?
	[ $result = 0 ] || status=1
	results+=("$command: status $result, $((SECONDS - began)) s: $(tail -n 1 "$log")")
done
echo
printf '%s\n' "${results[@]}"
echo "check-bare: $((SECONDS - started)) s in all"
exit $status
