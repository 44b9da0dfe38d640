"""Reads the declarations of tinyllm.h and tinygnn.h: structs, enums, functions, and types of callbacks.

The headers keep to a few plain forms of C, so a short reader is enough. The C compiler has the last word: Header.c()
makes a C file with the size of each struct, the place of each member and the value of each constant as that compiler
sees them. The file is linked into the shared object, and tests/test_layout.py compares it with what Python believes.
"""
import re
import subprocess

MACROS = ["TINY_VERSION", "TINY_ACCEL_VERSION", "TINY_MAX_RANK"]         # of #define, worth a value


def preprocess(cc, flags, include):
    """The declarations of both headers without comments, macros and what comes from the system."""
    macros = ", ".join(f"PY_{m} = {m}" for m in MACROS)
    source = f'#include "tinyllm.h"\n#include "tinygnn.h"\nenum {{ {macros} }};\n'
    text = subprocess.run([*cc, *flags, "-I" + include, "-E", "-x", "c", "-"], input=source, text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    kept, ours = [], False
    for line in text.splitlines():
        if line.startswith("#"):
            ours = re.search(r'"([^"]*tiny(llm|gnn)\.h|<stdin>)"', line) is not None
        elif ours:
            kept.append(line)
    return "\n".join(kept)


def split(text, separator):
    """text cut at each separator that stands outside of all brackets"""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "({[") - (c in ")}]")
        if c == separator and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return [p for p in parts if p]


def statements(text):
    """Top-level declarations; the bodies of inline functions are left out."""
    depth, start, result = 0, 0, []
    for i, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if depth:
            continue
        if c == ";":
            result.append(" ".join(text[start:i].split()))
            start = i + 1
        elif c == "}" and re.match(r"\s*(__attribute__\(\(.*?\)\)\s*)?static\b", text[start:i]):
            start = i + 1
    return [s for s in result if s]


def number(text, known):
    """the value of a constant expression of C"""
    return int(eval(re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text), {"__builtins__": {}}, known))


def declarator(text, known=None):
    """'const float *x[4]' -> ('x', 'const float *', 4); of a pointer to a function the type is (result, arguments)"""
    call = re.match(r"(.*?)\(\s*\*\s*(\w*)\s*\)\s*\((.*)\)$", text)
    if call:
        result, name, arguments = call.groups()
        return name, (result.strip(), [declarator(a)[1] for a in split(arguments, ",") if a != "void"]), 0
    count = 0
    for n in re.findall(r"\[([^\]]*)\]", text):
        count = max(count, 1) * (number(n, known) if n.strip() else 1)
    text = re.sub(r"\[[^\]]*\]", "", text).replace("restrict", " ")
    m = re.match(r"(.*?)(\b\w+)?\s*$", text.replace("*", " * "))
    kind, name = m.group(1).strip(), m.group(2)
    if kind in ("", "const", "struct", "enum") or name in ("int", "char", "long", "short"):     # a type without a name
        kind, name = (kind + " " + (name or "")).strip(), ""
    return name, kind, count


def members(body, known):
    result = []
    for line in split(body, ";"):
        if "(" in line:
            result.append(declarator(line))
            continue
        names = split(line, ",")
        first, kind, count = declarator(names[0], known)
        result.append((first, kind, count))
        base = kind.replace("*", " ").strip()
        for more in names[1:]:
            result.append(declarator(base + " " + more, known))
    return result


class Header:
    """structs: name -> members; enums: name -> names of constants; constants: name -> value; functions: name ->
    (result, arguments); aliases: name -> type. A member or argument is (name, type, count): 0 where it is no array."""

    def __init__(self, text):
        self.structs, self.unions, self.enums, self.functions, self.aliases = {}, set(), {}, {}, {}
        self.constants = {}
        for s in statements(text):
            self.statement(s)

    def statement(self, s):
        record = re.match(r"(?:typedef )?(struct|union)\s*(\w*)\s*\{(.*)\}\s*(\w*)$", s)
        enum = re.match(r"(?:typedef )?enum\s*\w*\s*\{(.*)\}\s*(\w*)$", s)
        if record:
            form, tag, body, name = record.groups()
            self.structs[name or tag] = members(body, self.constants)
            if form == "union":
                self.unions.add(name or tag)
        elif enum:
            value, names = -1, []
            for c in split(enum.group(1), ","):
                name, _, given = c.partition("=")
                value = number(given, self.constants) if given else value + 1
                names.append(name.strip().removeprefix("PY_"))
                self.constants[names[-1]] = value
            self.enums[enum.group(2) or names[0]] = names   # one without a name goes by its first constant
        elif s.startswith("typedef "):
            name, kind, _ = declarator(s[8:])
            if isinstance(kind, tuple) or not kind.startswith(("struct ", "union ")):
                self.aliases[name] = kind
        elif re.match(r"(struct|union|enum) \w+$", s):
            pass
        else:
            m = re.match(r"(?:extern )?(.*?)\b((?:tinyllm|tinygnn|tllm|tgnn)_\w+)\s*\((.*)\)$", s)
            if m:
                result, name, arguments = m.groups()
                self.functions[name] = (result.strip(), [declarator(a) for a in split(arguments, ",") if a != "void"])

    def python(self):
        """the same as the text of a Python module"""
        lines = ['"""Made by read_header.py from tinyllm.h and tinygnn.h."""']
        for name in ("structs", "enums", "functions", "aliases", "constants"):
            lines.append(f"{name} = {{")
            lines += [f"    {key!r}: {value!r}," for key, value in getattr(self, name).items()]
            lines.append("}")
        lines.append(f"unions = {sorted(self.unions)!r}")
        return "\n".join(lines) + "\n"

    def c(self):
        """Sizes, places and values, as this compiler has them: in the order of the dictionaries."""
        sizes, values = [], []
        for name, fields in self.structs.items():
            sizes.append(f"sizeof({name})")
            for field, _, _ in fields:
                sizes += [f"offsetof({name}, {field})", f"sizeof((({name} *)0)->{field})"]
        for name in self.constants:
            values.append(f"(long long)({name})")
        return ('#include "tinyllm.h"\n#include "tinygnn.h"\n#include <stddef.h>\n'
                "extern const size_t tinypy_layout[];\nextern const long long tinypy_value[];\n"
                "const size_t tinypy_layout[] = {\n    " + ",\n    ".join(sizes) + "\n};\n"
                "const long long tinypy_value[] = {\n    " + ",\n    ".join(values) + "\n};\n"
                "/* the cancel callback of every context: user points at the wish to stop */\n"
                "int tinypy_cancel(void *user);\n"
                "int tinypy_cancel(void *user) { return *(const volatile int *)user; }\n")
