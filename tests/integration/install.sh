#!/bin/bash
# install.sh - make install into a folder, what it holds, and that uninstall takes all of it away again.
# The pages and completions are made from the option tables: each command and option must be in them.
. "$(dirname "$0")/lib"

root=$TMP/root
"${MAKE:-make}" -s --no-print-directory install O="$O" DESTDIR="$root" PREFIX=/usr >"$TMP/install.log" 2>&1
check install-status test $? = 0
for f in bin/perfwind lib/perfwind/libperfwind-hook.so lib/perfwind/libperfwind-marks.so include/perfwind-marks.h share/man/man1/perfwind.1 share/man/man1/perfwind-record.1 \
	share/bash-completion/completions/perfwind share/zsh/site-functions/_perfwind share/fish/vendor_completions.d/perfwind.fish share/doc/perfwind/LICENSE; do
	check "installed-$(basename "$f")" test -s "$root/usr/$f"
done
check installed-settings cmp rc/perfwind.conf "$root/etc/perfwind.conf"
installs_again() { "${MAKE:-make}" -s --no-print-directory "$1" O="$O" DESTDIR="$root" PREFIX=/usr >"$TMP/$1.log" 2>&1; }
check runs "$root/usr/bin/perfwind" --version
run_finds_the_hook() { "$root/usr/bin/perfwind" run -- cat /proc/self/maps | grep -q libperfwind-hook.so; }
check run-finds-the-hook run_finds_the_hook

every_option_is_in_its_page() {
	local command option page
	for command in $("$PERFWIND" --help | awk '/^Commands:/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'); do
		page=$root/usr/share/man/man1/perfwind-$command.1
		for option in $("$PERFWIND" "$command" --help | sed -nE 's/^ +(-.,)? *--([a-z-]+).*/\2/p'); do
			sed 's/\\-/-/g' "$page" | grep -q -e "--$option" || { echo "no --$option in $page"; return 1; }
			grep -q -e "--$option" "$root/usr/share/bash-completion/completions/perfwind" || return 1
			grep -q -e "--$option" "$root/usr/share/zsh/site-functions/_perfwind" || return 1
		done
	done
}
check every-option-is-in-its-page every_option_is_in_its_page
if command -v man >/dev/null 2>&1; then
	no_warning() { ! man --warnings -E UTF-8 -l -Tutf8 -Z "$root/usr/share/man/man1/$1" 2>&1 >/dev/null | grep .; }
	check page-perfwind no_warning perfwind.1
	check page-record no_warning perfwind-record.1
fi
completes() { bash -c "
	. '$root/usr/share/bash-completion/completions/perfwind'
	COMP_WORDS=(perfwind $1) COMP_CWORD=$2
	_perfwind
	printf '%s\n' \"\${COMPREPLY[@]}\"" | grep -qxe "$3"; }
check bash-commands completes "rec" 1 record
check bash-options completes "record --freq" 2 --frequency
check bash-choices completes "record --unwinder lib" 3 libdw

# Settings that were changed are the machine's: neither written over nor taken away.
echo 'user-rate = 5000' >>"$root/etc/perfwind.conf"
check again installs_again install
check again-keeps-settings grep -qx 'user-rate = 5000' "$root/etc/perfwind.conf"
check uninstalls installs_again uninstall
check uninstalled-keeps-settings grep -qx 'user-rate = 5000' "$root/etc/perfwind.conf"
cp rc/perfwind.conf "$root/etc/perfwind.conf"
check uninstalls-again installs_again uninstall
nothing_left() { [ -z "$(find "$root" -type f)" ] || { find "$root" -type f; return 1; }; }
check nothing-left nothing_left
