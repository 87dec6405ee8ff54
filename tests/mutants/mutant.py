"""Mutants: how they are written, and how they are inserted into source code, active or dormant."""

import hashlib
import re
import sys


class Mutant:
    """A change of one file, and the tests that must detect it."""

    def __init__(self, room, name, fields, old, new):
        self.room, self.name, self.old, self.new = room, name, old, new
        self.file = fields.get("file", "")
        self.is_alone = "alone" in fields  # cannot be compiled with others
        self.is_asleep = False  # it is compiled into the copy, and its name activates it
        self.tests = [tuple(line.split(None, 1)) for line in fields.get("tests", "").splitlines()]

    def guard(self, text):
        """Returns the match of the old text, and code that chooses between old and new at run time; None if it cannot be
        built from the text alone."""
        place = self.places(text)[0]
        old, new, awake = place[0], self.new.strip(), f'retort_mutant("{self.title}")'
        before = re.sub(r"(\s*//[^\n]*)+$", "", text[: place.start()].rstrip())
        if self.is_alone:
            return None
        if condition := changed_condition(old, new):
            begin, end, other = condition
            return place, f"{old[:begin]}({awake} ? bool({other}) : bool({old[begin:end]})){old[end:]}"
        if value := changed_value(old, new):
            head, was, becomes = value
            return place, f"{head} = {awake} ? ({becomes}) : ({was});"
        is_between = before.endswith((";", "{", "}", ":", ")")) and not re.match(r"\s*else\b", text[place.end() :])
        if is_between and is_statements(old) and (not new or is_statements(new)):
            return place, f"if ({awake}) {{ {new} }} else {{ {old} }}"
        after = text[place.end() :].lstrip()
        if is_expression(old) and is_expression(new) and not (is_loose(old) and re.match(r"[-+*/%<>.=!]", after)):
            return place, f"({awake} ? ({new}) : ({old}))"
        return None

    @property
    def title(self):
        return f"{self.room}: {self.name}"

    def places(self, text):
        """Returns all matches of the old text; white space and line breaks may differ."""
        words = [re.escape(word) for word in self.old.split()]
        return list(re.finditer(r"\s+".join(words), text))

    def applied(self, text):
        place = self.places(text)[0]
        return text[: place.start()] + self.new.strip() + text[place.end() :]

    def digest(self):
        return hashlib.sha256("\0".join([self.file, self.old, self.new, repr(self.tests)]).encode()).hexdigest()


def closing(text, begin):
    """Returns the index of the parenthesis that closes the one at `begin`, or -1."""
    depth = 0
    for at in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return -1


def changed_condition(old, new):
    """If `new` differs from `old` only in a condition, returns its start and end in `old`, and the other condition."""
    head = re.match(r"(?:\}?\s*else\s+)?(?:if|while)\s*\(", old)
    if not head or not new.startswith(head[0]) or ";" in old[head.end() : closing(old, head.end() - 1)]:
        return None
    end, other = closing(old, head.end() - 1), closing(new, head.end() - 1)
    is_alone = end > 0 and other > 0 and old[end:].split() == new[other:].split()
    return (head.end(), end, new[head.end() : other]) if is_alone else None


def changed_value(old, new):
    """If `new` differs only in the value of a declaration, returns its head without constexpr, and both values."""
    form = re.compile(r"((?:inline )?)(constexpr |const |)([\w:<>*& ]*?\w[ *&]+\w+) = ([^{].*);", flags=re.S)
    was, becomes = form.fullmatch(old), form.fullmatch(new)
    if not was or not becomes or was.groups()[:3] != becomes.groups()[:3] or ";" in was[4] + becomes[4]:
        return None
    if was[3].startswith(("return ", "else ")):
        return None
    return was[1] + ("const " if was[2] else "") + was[3], was[4], becomes[4]


def is_expression(text):
    """Whether the text is one complete expression without a list."""
    depth = 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth < 0 or (depth == 0 and letter == ","):
            return False
    is_cut = re.match(r"(if|for|while|return|else|case)\b|[-+*/%<>=&|.,?:]", text) or text.endswith(tuple("-+*/%<>=&|.,?:("))
    bare = re.sub(r'"[^"]*"|::', "", text)
    is_half = bare.count("?") != bare.count(":")  # half of a conditional expression
    return bool(text) and depth == 0 and not is_cut and not is_half and not re.search(r"[;{}]", text)


def is_loose(text):
    """Whether the text may contain an operator of lower precedence than one that follows it, so that it is only part of a term."""
    return re.search(r"&&|\|\||\?|[<=]|(?<!-)>", text) is not None


def is_statements(text):
    """Whether the text consists of complete statements that declare nothing used after them."""
    declares = re.compile(r"^\s*((static|constexpr|const|auto|using) |(std|at|fs)::[^=;(]* \w+ ?[={;]|(bool|int|double) "
                          r"|[A-Z]\w*[ <&*][^=;(]*[={;(])", flags=re.M)
    is_whole = re.match(r"[\w+*(-]", text) and text.endswith((";", "}")) and not text.startswith("else")
    return is_whole and all(text.count(a) == text.count(b) for a, b in ("()", "{}")) and not declares.search(text)


def read_mutants(rooms):
    """Returns the mutants of all rooms, given the name and the text of each room."""
    mutants = []
    for room, text in rooms:
        for block in re.split(r"^=== ", text, flags=re.M)[1:]:
            match = re.fullmatch(r"(.*?)\n(.*?)^--- old\n(.*?)^--- new\n(.*)", block, flags=re.M | re.S)
            if not match:
                sys.exit(f"{room}.mutants: '{block.splitlines()[0]}' lacks '--- old' or '--- new'")
            name, head, old, new = match.groups()
            fields = {}
            for line in filter(None, head.splitlines()):
                key, _, value = line.partition(" ")
                if key not in ("file", "tests", "alone"):
                    sys.exit(f"{room}.mutants: '{name}' has an unknown line '{line}'")
                fields[key] = fields[key] + "\n" + value if key in fields else value
            mutants.append(Mutant(room, name, fields, old, new))
    return mutants
