"""All sabotages in one build: every function that a row breaks gets the broken bodies beside its own, and a number chooses.

    fn f(x: f64) -> f64 {                    fn f(x: f64) -> f64 {
        x + slack                                match crate::sabotage() {
    }                                                7 => { x - slack }
                                                     _ => { x + slack }
                                                 }
                                             }

The number is read from the environment (`SABOTAGE`), once in a process. So the whole list needs one build, and a row no
longer than its tests. What stands outside of functions, or in one that is evaluated by the compiler, is left over.
"""

import collections
import pathlib
import re

CHOICE = """
/// Which sabotage is in force.
#[doc(hidden)]
#[allow(missing_docs, clippy::all)]
pub(crate) fn sabotage() -> usize {
    static CHOSEN: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("SABOTAGE").map_or(usize::MAX, |number| number.parse().expect("a number")))
}
"""

# Comments, strings (raw ones, too) and characters; a lifetime is none of them.
HIDDEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?\'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\\'])\'', re.S
)


def bare(source):
    """The source with everything hidden that may hold braces without meaning them."""
    return HIDDEN.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)


def functions(source):
    """Where bodies of functions begin and end, outermost ones only, that can be chosen among at run time."""
    shown, end = bare(source), 0
    for found in re.finditer(r"\bfn\s+\w+", shown):
        if found.start() < end:
            continue
        depth = 0
        for at in range(found.end(), len(shown)):
            depth += (shown[at] in "([") - (shown[at] in ")]")
            if depth == 0 and shown[at] in "{;":
                break
        if shown[at] == ";":
            continue
        start, depth = at, 0
        for at in range(start, len(shown)):
            depth += (shown[at] == "{") - (shown[at] == "}")
            if depth == 0:
                break
        end = at + 1
        before = shown[shown.rfind("\n", 0, found.start()) + 1 : found.start()]
        if "const" not in before and "-> impl" not in shown[found.start() : start]:
            yield start, end


class Weaver:
    """The files of a tree that rows break: as they were, with all rows woven in, or with a single one broken."""

    def __init__(self, folder, rows):
        self.folder, self.rows = pathlib.Path(folder), rows
        files = {row[2] for row in rows}
        self.sources = {file: (self.folder / file).read_text() for file in files | {root(file) for file in files}}
        # Rows by file and body of a function, and where they stand in what was woven.
        self.places, self.lines = collections.defaultdict(dict), {}
        bodies = {file: list(functions(self.sources[file])) for file in files}
        for number, (_, _, file, text, _, _) in enumerate(rows):
            at = self.sources[file].find(text)
            body = next((b for b in bodies[file] if b[0] < at and at + len(text) < b[1]), None)
            if body:
                self.places[file].setdefault(body, []).append(number)

    def write(self):
        """Weaves all rows that can be; gives those that are left over."""
        self.lines = {}
        woven = dict(self.sources)
        for file, bodies in self.places.items():
            whole, text, end = self.sources[file], "", 0
            for (start, stop), numbers in sorted(bodies.items()):
                text += whole[end:start] + "{ match crate::sabotage() {"
                for number in numbers:
                    line = text.count("\n") + 2
                    text += f"\n{number} => " + whole[start:stop].replace(*self.rows[number][3:5])
                    self.lines[number] = (file, line, text.count("\n") + 1)
                text += "\n_ => " + whole[start:stop] + "} }"
                end = stop
            woven[file] = text + whole[end:]
        for file in {root(file) for file in self.places}:
            woven[file] += CHOICE
        self.put(woven)
        return [number for number in range(len(self.rows)) if number not in self.lines]

    def blamed(self, message):
        """The rows that a message of the compiler is about."""
        places = [(span["file_name"], span["line_start"]) for span in message["spans"]]
        return {n for n, (file, first, last) in self.lines.items() if any(f == file and first <= at <= last for f, at in places)}

    def drop(self, numbers):
        """These are not woven any more."""
        for bodies in self.places.values():
            for body in bodies:
                bodies[body] = [number for number in bodies[body] if number not in numbers]

    def restore(self, broken=None):
        """All files as they were, but for one row."""
        files = dict(self.sources)
        if broken is not None:
            _, _, file, text, replacement, _ = self.rows[broken]
            files[file] = files[file].replace(text, replacement)
        self.put(files)

    def put(self, files):
        """Files that change are new to the compiler, the others stay as old as they are."""
        for file, text in files.items():
            if (self.folder / file).read_text() != text:
                (self.folder / file).write_text(text)


def root(file):
    """The root of the crate that a file belongs to."""
    source = re.match(r"crates/[\w-]+/src/", file).group()
    return file if file == source + "main.rs" else source + "lib.rs"
