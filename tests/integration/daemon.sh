#!/bin/bash
# daemon.sh - `perfwind daemon` against a tracing service made for the tests (fake_traced.py).
. "$(dirname "$0")/lib"
need_root # a data source opens its events for whole CPUs
need_perf
export PYTHONDONTWRITEBYTECODE=1
"$PYTHON" "$INTEGRATION/daemon_cases.py" "$PERFWIND" "$PROGRAMS" "$TMP" "$@"
