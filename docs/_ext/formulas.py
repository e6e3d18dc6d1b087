"""Formulas written as plain text, as in proof notes, found and written as TeX, token by token.

``P(S) <= exp(epsilon) Q(S) + delta`` becomes ``P(S) \\le \\exp(\\varepsilon)\\,Q(S) + \\delta``. Only signs change,
never their order or grouping: a fraction keeps its slash and its brackets, so nothing can come to mean something else.
What does not parse as a formula from end to end stays text, and so does what has no sign that text has not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SMALL = r"alpha|beta|gamma|delta|epsilon|zeta|eta|theta|kappa|lambda|mu|nu|xi|pi|rho|sigma|tau|phi|chi|psi|omega"
GREEK = set(f"{SMALL}|Gamma|Delta|Theta|Lambda|Xi|Pi|Sigma|Phi|Psi|Omega".split("|"))
NAMED = {"exp", "log", "ln", "cos", "sin", "tan", "tanh", "det", "max", "min", "sup", "arcsin", "arccos", "arctan"}
PLAIN = {"erf", "erfc", "tr", "diag", "Var", "Cov", "round", "sign", "dist", "TV", "KL", "Lap", "Bin", "Pr", "vol"}
WITHOUT_BRACKETS = {"log", "ln", "cos", "sin"}  # "ln 2", "cos t"
CONSTANT = re.compile("[A-Z]{4,}")  # RADIUS, a constant of the code; shorter ones may be words, such as DP
RELATIONS = {"<=": r"\le", ">=": r"\ge", "!=": r"\ne", "->": r"\to", "<": "<", ">": ">", "=": "=", "~": r"\sim"}
CLOSING = {"(": ")", "[": "]", "{": "}"}
TOKEN = re.compile(
    r"(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])|\.\d+(?:e[+-]?\d+)?(?![\w]))"
    r"|(?P<name>[A-Za-z]+\d*(?:_(?:[A-Za-z0-9]+))?'{0,2}(?![A-Za-z0-9_]))"
    r"|(?P<sign>\+-|<=|>=|!=|->|\|\||\.\.\.|[-+*/^=<>~|()\[\]{},;!])"
    r"|(?P<other>\w+|[^\s])"
)


@dataclass(frozen=True)
class Token:
    """A sign of the text, and whether white space stands before and behind it."""

    kind: str
    text: str
    start: int
    end: int
    before: bool
    behind: bool


class NoFormula(Exception):
    """Here the text is no formula."""


def tokens(text: str) -> list[Token]:
    """All of a text."""
    return [
        Token(
            str(found.lastgroup),
            found.group(),
            found.start(),
            found.end(),
            found.start() == 0 or text[found.start() - 1].isspace(),
            found.end() == len(text) or text[found.end()].isspace(),
        )
        for found in TOKEN.finditer(text)
    ]


class Reader:
    """Reads the longest formula from one place on."""

    def __init__(self, found: list[Token], place: int) -> None:
        self.found, self.place, self.strong = found, place, False

    def peek(self, ahead: int = 0) -> Token | None:
        at = self.place + ahead
        return self.found[at] if at < len(self.found) else None

    def take(self, *signs: str) -> str | None:
        token = self.peek()
        if token and token.kind == "sign" and token.text in signs:
            self.place += 1
            return token.text
        return None

    def need(self, sign: str) -> None:
        if not self.take(sign):
            raise NoFormula

    def trial(self, read: str, **given: bool) -> str | None:
        """What the method gives, or None, and then nothing was read."""
        at, strong = self.place, self.strong
        try:
            return str(getattr(self, read)(**given))
        except NoFormula:
            self.place, self.strong = at, strong
            return None

    def relation(self, inside: bool = False) -> str:
        """``expression <= expression ...``."""
        parts = [self.expression(inside=inside)]
        while (token := self.peek()) and token.kind == "sign" and token.text in RELATIONS:
            at = self.place
            self.place += 1
            right = self.trial("expression", inside=inside)
            if right is None:
                self.place = at
                break
            self.strong = True
            parts += [RELATIONS[token.text], right]
        return " ".join(parts)

    def expression(self, inside: bool = False) -> str:
        """Terms with + and - between them, the same space on both sides of a sign."""
        first = self.take("+-", "-", "+")
        if first and self.found[self.place - 1].behind:
            raise NoFormula
        self.strong |= first == "+-"
        term = self.term(inside=inside)
        sign = {"+-": r"\pm ", "-": "-", "+": "+"}.get(first or "", "")
        parts = [f"{{{sign}{term}}}" if sign else term]
        while (token := self.peek()) and token.kind == "sign" and token.text in ("+", "-", "+-"):
            at = self.place
            self.place += 1
            right = self.trial("term", inside=inside) if token.before == token.behind else None
            if right is None:
                self.place = at
                break
            self.strong = True
            parts += [r"\pm" if token.text == "+-" else token.text, right]
        return " ".join(parts)

    def term(self, inside: bool = False) -> str:
        """Factors with *, / or nothing between them."""
        parts = [self.factor(inside=inside)]
        while token := self.peek():
            at = self.place
            if token.kind == "sign" and token.text in "*/" and token.before == token.behind:
                self.place += 1
                right = self.trial("factor", inside=inside)
                if right is None:
                    self.place = at
                    break
                self.strong = True
                parts += [r"\cdot" if token.text == "*" else r"\text{/}", right]
                continue
            if self.article(token) or (token.kind == "number" and not inside):
                break
            if token.kind == "sign" and token.text not in ("(", "[", "{", "||", "|"):
                break
            if token.text in ("|", "||") and (token.behind or not token.before):
                break  # it ends what it opened
            if token.text in ("[", "{") and token.before:
                break
            if (right := self.trial("factor", inside=inside)) is None:
                break
            parts += [r"\,", right]
        return " ".join(parts)

    def article(self, token: Token) -> bool:
        """Whether "a", "A" or "I" may be a word of the sentence."""
        follows = self.peek(1)
        tied = follows and not token.behind and follows.text in "^('"
        return token.text in ("a", "A", "I") and not tied

    def factor(self, inside: bool = False) -> str:
        """A base, with exponents and factorials."""
        base = self.base(inside=inside)
        while True:
            token = self.peek()
            if token and token.text == "!" and not token.before:
                self.place += 1
                base += "!"
            elif token and token.text == "^" and not token.behind:
                self.place += 1
                self.strong = True
                base = f"{base}^{{{self.exponent()}}}"
            else:
                return base

    def exponent(self) -> str:
        """What stands above: brackets around it are only for text."""
        minus = "-" if self.take("-") else ""
        token = self.peek()
        if token and token.text == "(":
            self.place += 1
            inner = self.relation(inside=True)
            self.need(")")
            return minus + inner
        return minus + self.base(inside=True)

    def base(self, inside: bool = False) -> str:
        """A number, a name, a function of something, or brackets."""
        token = self.peek()
        if token is None or token.kind == "other":
            raise NoFormula
        self.place += 1
        if token.kind == "number":
            return self.number(token.text)
        if token.kind == "name":
            return self.name(token)
        if token.text in CLOSING:
            close = CLOSING[token.text]
            inner = self.several()
            mixed = self.take(")", "]") if token.text in "([" else None  # half-open intervals
            if mixed is None:
                self.need(close)
            marks = {"{": r"\{", "}": r"\}"}
            return f"{marks.get(token.text, token.text)}{inner}{marks.get(mixed or close, mixed or close)}"
        if token.text in ("|", "||") and not token.behind:
            inner = self.relation(inside=True)
            self.need(token.text)
            self.strong = True
            left, right = (r"\lVert ", r" \rVert") if token.text == "||" else (r"\lvert ", r" \rvert")
            return left + inner + right
        if token.text == "...":
            return r"\dots"
        raise NoFormula

    def several(self) -> str:
        """Relations with commas, semicolons or bars between them."""
        parts = [self.relation(inside=True)]
        while mark := self.take(",", ";", "|"):
            parts += [r"\mid" if mark == "|" else mark, self.relation(inside=True)]
        return " ".join(parts)

    def number(self, text: str) -> str:
        digits, _, power = text.partition("e")
        digits = digits.replace(",", "{,}")
        if not power:
            return digits
        self.strong = True
        tens = f"10^{{{int(power)}}}"
        return tens if digits == "1" else rf"{digits} \cdot {tens}"

    def name(self, token: Token) -> str:
        """A letter, a Greek letter or a function, with index and primes."""
        found = re.fullmatch(r"([A-Za-z]+)(\d*)(?:_(\w+))?('*)", token.text)
        assert found
        word, digits, index, primes = found.groups()
        follows = self.peek()
        called = follows is not None and follows.text in ("(", "[") and not token.behind
        if word == "sqrt" and not (digits or index or primes):
            self.strong = True
            if called:
                self.place += 1
                inner = self.relation(inside=True)
                self.need(")")
                return rf"\sqrt{{{inner}}}"
            return rf"\sqrt{{{self.factor(inside=True)}}}"
        if word in GREEK:
            self.strong = True
            shown = {"epsilon": r"\varepsilon", "phi": r"\varphi"}.get(word, rf"\{word}")
        elif word in NAMED | PLAIN:
            norm = follows is not None and follows.text in ("|", "||", "^")  # "max |u|"
            if not (called or index or norm or word in WITHOUT_BRACKETS):
                raise NoFormula
            self.strong = True
            shown = rf"\{word}" if word in NAMED else rf"\operatorname{{{word}}}"
        elif len(word) == 1:
            shown = word
        elif CONSTANT.fullmatch(word):
            shown = rf"\mathrm{{{word}}}"
        else:
            raise NoFormula
        below = digits + (index or "")
        if below:
            below = rf"\{index}" if index in GREEK else below if len(below) < 4 else rf"\mathrm{{{below}}}"
        shown += f"_{{{below}}}" if below else ""
        shown = f"{{{shown}^{{{primes}}}}}".replace("'", r"\prime") if primes else shown
        if called:
            shown += self.base(inside=True)
            self.strong |= len(word) > 1
        elif word in WITHOUT_BRACKETS:
            shown += " " + self.factor(inside=True)
        return shown


def formulas_in(text: str) -> str:
    """A paragraph with every formula in it between dollar signs."""
    found = tokens(text)
    parts, done, place = [], 0, 0
    while place < len(found):
        reader = Reader(found, place)
        start = found[place]
        glued = place > 0 and not start.before and found[place - 1].kind in ("name", "other", "number")
        word = reader.article(start) and start.behind and not relates(found, place)
        result = None if glued or word else reader.trial("relation")
        last = found[reader.place - 1] if reader.place > place else None
        follows = reader.peek() if last is not None and not last.behind else None
        cut = follows is not None and (follows.kind in ("name", "number") or follows.text in "^_`")
        if result is None or not reader.strong or cut or last is None:
            place += 1
            continue
        parts += [text[done : start.start], f"${result}$"]
        done, place = last.end, reader.place
    return "".join([*parts, text[done:]])


def relates(found: list[Token], place: int) -> bool:
    """Whether an operator follows, so that "a" is a letter of a formula."""
    following = found[place + 1 : place + 2]
    return bool(following) and following[0].text in {*RELATIONS, "+", "-", "*", "/", "^"}


KEPT = re.compile(r"```.*?```|`[^`]*`|\[[^\]]*\]\([^)]*\)|^#.*?$|^\|[^\n]*\|$|https?://\S+", re.DOTALL | re.MULTILINE)


def typeset(text: str) -> str:
    """Markdown with its formulas between dollar signs; code, links, headings and tables as they are."""
    paragraphs = re.split(r"(\n\s*\n)", text)
    return "".join(part if not part.strip() else _paragraph(part) for part in paragraphs)


def _paragraph(text: str) -> str:
    parts, done = [], 0
    for kept in KEPT.finditer(text):
        parts += [formulas_in(text[done : kept.start()]), kept.group()]
        done = kept.end()
    return "".join([*parts, formulas_in(text[done:])])
