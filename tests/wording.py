#!/usr/bin/env python3
"""wording.py - words that have made readers stop: in string literals of the product, comments, identifiers, man pages, documents,
comments of the flame graph page, and in comments and names of functions of the tests' scripts.

CONTRIBUTING.md, Language.  Prints FILE:LINE: WORD -> REPLACEMENT for each, and exits 1 if there is one.  Code in a document (in
backquotes or a fenced block) is not looked at.
"""
import re
import subprocess
import sys

WORDS = [
    (r"mends?|mended|mending", "hint, fix"),
    (r"what to change", "hint"),
    (r"tells|told|telling", "report, print, record, indicate"),
    (r"whoever", "the process, the requester, the owner"),
    (r"(not )?believed|disbelieved", "trusted, verified; rejected"),
    (r"own rights", "your privileges"),
    (r"such ones", "repeat the noun"),
    (r"anew", "again"),
    (r"beside", "next to, alongside"),
    (r"in the midst", "during"),
    (r"for ever", "permanently"),
    (r"nobody", "no process, no user"),
    (r"unless told", "by default"),
    (r"nameless", "without symbols"),
    (r"side-band|side band", "sideband"),
    (r"the road|on the way|on (its|their) way", "the path; in progress"),
    (r"consents? to be", "opts in to profiling"),
    (r"as good as lost|is lived|lives of|a life", "an incarnation, an exec generation"),
    (r"who|whom|whose", "the process, the user; with, of which"),
    (r"tell|says?|said|saying", "report, print, show, contain"),
    (r"such", "this kind, or repeat the noun"),
    (r"unless", "if not, except where"),
    (r"not implemented", "left to FUNCTION"),
]
# In strings that a user sees: a comment's noun is near.
WORDS_OF_STRINGS = re.compile(r"\bof them\b|\bthose of\b", re.I)


PATTERN = re.compile("|".join(rf"(?P<w{i}>\b(?:{regex})\b)" for i, (regex, _) in enumerate(WORDS)), re.I)
# The same words as parts of identifiers, and of the names of functions and checks of a script.
IN_NAMES = "told|tells?|untold|anew|mends?|mended|believed|own_rights|for_ever|nameless|says?|said|whose"
NAME = re.compile(rf"\b(?:\w+_)?(?:{IN_NAMES})(?:_\w+)?\b")
SCRIPT_NAME = re.compile(rf"^[ \t]*(?:check |def )?(?:[\w-]+[_-])?(?:{IN_NAMES})(?:[_-][\w-]+)?(?=[ (])", re.M)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
SCRIPT_COMMENT = re.compile(r'(?:^|(?<=\s))#(?!!)[^\n]*|(?<=^""")(?:[^"]|"(?!""))*|(?<=\n    """)(?:[^"]|"(?!""))*', re.M)
# Names, not words: the user, and keys of JSON.
NAMES = {"nobody"}


def of_source(text):
    """(line, literal) for each run of adjacent string literals outside of comments."""
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
    text = re.sub(r"^#include.*$", "", text, flags=re.M)
    end, start, joined = None, 0, ""
    for m in LITERAL.finditer(text):
        if end is not None and not text[end:m.start()].replace("\\", "").strip():
            joined += m.group(1)
        else:
            if joined:
                yield start, joined
            start, joined = text.count("\n", 0, m.start()) + 1, m.group(1)
        end = m.end()
    if joined:
        yield start, joined


def of_comments(text):
    """(line, text) for each comment, its lines joined: a phrase may be broken there."""
    for m in re.finditer(r"/\*.*?\*/", text, flags=re.S):
        yield text.count("\n", 0, m.start()) + 1, re.sub(r"\n\s*\*?\s*", " ", m.group())


def of_names(text):
    """(line, identifier) for each identifier with one of the words."""
    code = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)
    code = LITERAL.sub('""', code)
    for m in NAME.finditer(code):
        yield code.count("\n", 0, m.start()) + 1, m.group()


def of_script(text):
    """(line, text) for each line of a comment or of the text at the head of a function."""
    for m in SCRIPT_COMMENT.finditer(text):
        yield from enumerate(m.group().split("\n"), text.count("\n", 0, m.start()) + 1)


def of_document(text):
    blank = lambda m: re.sub(r"[^\n]", " ", m.group())  # noqa: E731
    text = re.sub(r"^```.*?^```", blank, text, flags=re.S | re.M)
    text = re.sub(r"`[^`\n]*`", blank, text)
    yield from enumerate(text.split("\n"), 1)


def main():
    files = sys.argv[1:] or subprocess.check_output(
        ["git", "ls-files", "*.c", "*.h", "*.md", "docs/*.5", "protos/*.proto", "selinux/*",
         "profile/*.js", "profile/*.html", "Makefile", "rc/perfwind.conf", "rc/*.service", "rc/*.socket", "rc/debian/control", "tests/*.py", "tests/*.sh", "tests/run",
         "tests/integration/lib", ":!tests/wording.py"], text=True).split()
    found = 0
    for name in files:
        source, product = name.endswith((".c", ".h")), not name.startswith("tests/")
        script = not source and (not product and not name.endswith(".md") or name == "Makefile")
        with open(name, encoding="utf-8") as f:
            text = f.read()
        literals = [*of_source(text)] if source and product else []  # a test's are its data
        comments = of_comments(text) if source or name.endswith(".js") else of_script(text) if script else of_document(text)
        for line, words in [*literals, *comments]:
            if words in NAMES:
                continue
            for m in PATTERN.finditer(re.sub(r"\\[nt]|\\$", " ", words)):
                found += 1
                print(f"{name}:{line}: {m.group()} -> {WORDS[int(m.lastgroup[1:])][1]}")
        for line, words in literals:
            for m in WORDS_OF_STRINGS.finditer(re.sub(r"\\[nt]|\\$", " ", words)):
                found += 1
                print(f"{name}:{line}: {m.group()} -> repeat the noun")
        names = of_names(text) if source else ()
        if script:
            names = ((text.count("\n", 0, m.start()) + 1, m.group().strip()) for m in SCRIPT_NAME.finditer(text))
        for line, word in names:
            found += 1
            print(f"{name}:{line}: {word}")
    return found != 0


if __name__ == "__main__":
    sys.exit(main())
