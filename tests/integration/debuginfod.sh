#!/bin/bash
# debuginfod.sh - debug files from a debuginfod server on the loopback: only when asked for, within their time, and parsed by
# a process without privileges, whatever the server sends.
. "$(dirname "$0")/lib"
need_perf
export DEBUGINFOD_CACHE_PATH=$TMP/cache
unset DEBUGINFOD_URLS DEBUGINFOD_HEADERS_FILE

mkdir "$TMP/served"
cp "$PROGRAMS/recursion" "$TMP/bare"
objcopy --only-keep-debug "$TMP/bare" "$TMP/served/bare.debug"
strip --strip-all "$TMP/bare"
id=$(readelf -n "$TMP/bare" | sed -n 's/.*Build ID: //p')
record bare -- "$TMP/bare" 0.5
check bare-has-no-names hasnt bare 'recurse_|burn '
cp "$TMP/bare.pftrace" "$TMP/kept.pftrace"

symbolize() { timeout 60 "$PERFWIND" symbolize --debuginfod "$@" "$TMP/bare.pftrace" >"$TMP/symbolize.out" 2>&1; }
afresh() { rm -rf "$TMP/cache"; cp "$TMP/kept.pftrace" "$TMP/bare.pftrace"; }
exits() {
	local expected=$1
	shift
	"$@"
	[ $? -eq "$expected" ] && return
	cat "$TMP/symbolize.out"
	return 1
}
check no-servers exits 2 symbolize
check no-servers-hint grep -q 'DEBUGINFOD_URLS is not set (hint: ' "$TMP/symbolize.out"
port() { "$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Servers of garbage (a file that claims to be ELF, of the right build id and without end), and of silence.
cat >"$TMP/server.py" <<'PY'
import http.server, sys, threading, time
log, kind = open(sys.argv[2], "a", buffering=1), sys.argv[3]
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        log.write(self.path + "\n")
        if kind == "silent" or kind in self.path:
            time.sleep(600)
        head = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\xff" * 48
        note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0" + bytes.fromhex(self.path.split("/")[2])
        body = head + note + b"\xff\xfe\xfd\x07" * 4096
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
PY
serve() {
	local at
	at=$(port)
	: >"$TMP/requests"
	"$PYTHON" "$TMP/server.py" "$at" "$TMP/requests" "$1" &
	started $!
	export DEBUGINFOD_URLS=http://127.0.0.1:$at
	wait_for "$PYTHON" -c "import socket; socket.create_connection(('127.0.0.1', $at)).close()"
}
if [ -z "$(ldconfig -p | grep libdebuginfod.so.1)" ]; then
	unable debuginfod "libdebuginfod1 is not installed"
	exit
fi
serve garbage
afresh
check plain-makes-no-request "$PERFWIND" symbolize "$TMP/bare.pftrace"
check no-request-without-option [ ! -s "$TMP/requests" ]
check garbage-is-no-failure exits 0 symbolize
check garbage-was-asked grep -q "/buildid/$id/debuginfo" "$TMP/requests"
check garbage-has-no-names hasnt bare 'recurse_|burn '
afresh
: >"$TMP/requests"
check setting-asks env PERFWIND_DEBUGINFOD=yes "$PERFWIND" symbolize "$TMP/bare.pftrace"
check setting-was-asked grep -q "/buildid/$id/debuginfo" "$TMP/requests"
afresh
: >"$TMP/requests"
check setting-off env PERFWIND_DEBUGINFOD=no "$PERFWIND" symbolize "$TMP/bare.pftrace"
check setting-off-asks-nothing [ ! -s "$TMP/requests" ]
check setting-without-servers env -u DEBUGINFOD_URLS PERFWIND_DEBUGINFOD=yes "$PERFWIND" symbolize "$TMP/bare.pftrace"
export DEBUGINFOD_URLS=http://127.0.0.1:$(port)
afresh
check gone-is-no-failure exits 0 symbolize
check gone-hint-names-it-not sh -c "grep -q 'or --buildid-dir FILE' '$TMP/symbolize.out' && ! grep -q 'or --debuginfod' '$TMP/symbolize.out'"
check gone-is-reported grep -q 'debuginfod: 0 of [0-9]* debug files; no server answered for [1-9]' "$TMP/symbolize.out"
serve silent
afresh
check silent-is-no-failure exits 0 symbolize --debuginfod-time 1
check silent-is-reported grep -q 'the time was over' "$TMP/symbolize.out"

# While it records: the request comes before the end.
serve garbage
rm -rf "$TMP/cache"
: >"$TMP/requests"
"$PERFWIND" record -q -d 4 --debuginfod -o "$TMP/early.pftrace" -- "$TMP/bare" 30 2>"$TMP/early.err" &
recorder=$!
started $recorder
check early-is-asked wait_for grep -q "/buildid/$id/" "$TMP/requests"
check early-still-records pgrep -P $recorder -x bare
wait $recorder
check early-trace sh -c "'$PERFWIND' report --no-colour '$TMP/early.pftrace' >/dev/null"
# The file that matters most has no answer: the other is asked for at the same time.
cp "$PROGRAMS/threads" "$TMP/other"
strip --strip-all "$TMP/other"
cp "$TMP/bare.pftrace" "$TMP/alone.pftrace"
record bare -- sh -c "'$TMP/bare' 0.6; '$TMP/other' 0.2"
serve "$id"
rm -rf "$TMP/cache"
check one-silent-is-no-failure exits 0 symbolize --debuginfod-time 3
other=$(readelf -n "$TMP/other" | sed -n 's/.*Build ID: //p')
check one-silent-was-asked grep -q "/buildid/$id/" "$TMP/requests"
check one-silent-other-asked grep -q "/buildid/$other/" "$TMP/requests"
check one-silent-is-reported grep -q 'the time was over' "$TMP/symbolize.out"
mv "$TMP/alone.pftrace" "$TMP/bare.pftrace"

command -v debuginfod >/dev/null || { unable debuginfod-server "debuginfod is not installed"; exit; }
PORT=$(port)
# (With servers in its environment it would ask these, too.)
env -u DEBUGINFOD_URLS debuginfod -d "$TMP/files.sqlite" -p "$PORT" -F "$TMP/served" >"$TMP/server.log" 2>&1 &
started $!
export DEBUGINFOD_URLS=http://127.0.0.1:$PORT
has_file() { "$PYTHON" -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$PORT/buildid/$id/debuginfo')"; }
check server-has-the-file wait_for has_file
afresh
check fetched exits 0 symbolize
check fetched-is-reported grep -q 'debuginfod: [1-9][0-9]* of ' "$TMP/symbolize.out"
check fetched-names has bare '^bare;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check fetched-is-kept [ -s "$TMP/cache/$id/debuginfo" ]
check fetched-lines sh -c "'$PERFWIND' trace --dump '$TMP/bare.pftrace' | grep -q 'recursion.c'"
afresh
check report-exits sh -c "'$PERFWIND' report --debuginfod '$TMP/bare.pftrace' >'$TMP/report.out'"
check report-names grep -q recurse_odd "$TMP/report.out"
# A recording asks at its end.
rm -rf "$TMP/cache"
check record-exits "$PERFWIND" record -q --debuginfod -o "$TMP/again.pftrace" -- "$TMP/bare" 0.5
check record-names has again '^bare;.*main;(recurse_even;recurse_odd;){20,}.*burn '
