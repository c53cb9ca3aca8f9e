#!/bin/bash
# demo.sh PERFWIND - profiles a real program for some seconds and shows what came of it.
# A C++ compile where there is a C++ compiler (with the preprocessor and assembler it starts), else a Python run.
set -eu
perfwind=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

if command -v g++ >/dev/null 2>&1; then
	cat >"$dir/demo.cc" <<'CC'
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
int main()
{
	std::regex word("([a-z]+)-([0-9]+)");
	std::map<std::string, std::vector<std::shared_ptr<std::string>>> by_name;
	std::unordered_map<std::string, std::function<int(int)>> calls;
	std::mt19937 random(1);
	std::smatch found;
	for (int i = 0; i < 100; i++) {
		std::string text = "name-" + std::to_string(random() % 1000);
		if (std::regex_match(text, found, word))
			by_name[found[1]].push_back(std::make_shared<std::string>(found[2]));
		calls[text] = [i](int n) { return i + n; };
	}
	for (auto &entry : by_name)
		std::sort(entry.second.begin(), entry.second.end(), [](auto &a, auto &b) { return *a < *b; });
	std::cout << by_name.size() << calls.size() << "\n";
}
CC
	echo "Profiling a C++ compile (three times the same file, -O2):"
	program="g++ -O2 -c demo.cc, three times"
	set -- sh -c 'cd "$1" && for i in 1 2 3; do g++ -O2 -std=c++17 -c demo.cc -o demo.o || exit 1; done' demo "$dir"
else
	cat >"$dir/demo.py" <<'PY'
import json, re, time
def tokens(text): return re.findall(r"[a-z]+|[0-9]+", text)
def count(words):
    seen = {}
    for w in words: seen[w] = seen.get(w, 0) + 1
    return sorted(seen.items(), key=lambda kv: (-kv[1], kv[0]))
end = time.time() + 5
while time.time() < end:
    text = json.dumps([{"name": "n%d" % i, "value": i * i} for i in range(2000)])
    count(tokens(text))
PY
	echo "Profiling a Python run:"
	program="python3 demo.py"
	set -- python3 "$dir/demo.py"
fi
echo
"$perfwind" record -o demo.pftrace -- "$@"
echo
"$perfwind" report --limit 15 demo.pftrace
"$perfwind" export --to html -o demo.html demo.pftrace
echo
echo "demo.pftrace  open it at https://ui.perfetto.dev, or: $perfwind report --tree demo.pftrace"
echo "demo.html     a flame graph in one file, for any browser ($program)"
