"""What TeX's names stand for: tables of characters, each with its class of TeXbook chapter 17.

The classes decide the space around a character: ``ord``, ``op`` (sums), ``fn`` (named functions),
``bin``, ``rel``, ``open``, ``close``, ``punct``.
"""

from __future__ import annotations

GREEK = dict(
    zip(
        "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu"
        " xi pi varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega".split(),
        "αβγδϵεζηθϑικλμνξπϖρϱσςτυϕφχψω",
    )
)
CAPITALS = dict(
    zip("Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega".split(), "ΓΔΘΛΞΠΣΥΦΨΩ")
)
UPRIGHT = {  # letters and signs that are no variables
    "infty": "∞",
    "nabla": "∇",
    "partial": "∂",
    "ell": "ℓ",
    "emptyset": "∅",
    "varnothing": "∅",
    "forall": "∀",
    "exists": "∃",
    "top": "⊤",
    "bot": "⊥",
    "dots": "…",
    "ldots": "…",
    "cdots": "⋯",
    "vdots": "⋮",
    "ddots": "⋱",
    "prime": "′",
    "dagger": "†",
    "hbar": "ℏ",
    "Re": "ℜ",
    "Im": "ℑ",
    "#": "#",
    "%": "%",
    "&": "&",
    "$": "$",
    "_": "_",
    "checkmark": "✓",
}
BINARY = {
    "+": "+",
    "-": "−",
    "*": "∗",
    "pm": "±",
    "mp": "∓",
    "times": "×",
    "cdot": "⋅",
    "circ": "∘",
    "bullet": "∙",
    "otimes": "⊗",
    "oplus": "⊕",
    "odot": "⊙",
    "cup": "∪",
    "cap": "∩",
    "setminus": "∖",
    "wedge": "∧",
    "land": "∧",
    "vee": "∨",
    "lor": "∨",
    "star": "⋆",
    "ast": "∗",
    "div": "÷",
}
RELATIONS = {
    "=": "=",
    "<": "<",
    ">": ">",
    ":": ":",
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "ne": "≠",
    "neq": "≠",
    "lt": "<",
    "gt": ">",
    "ll": "≪",
    "gg": "≫",
    "in": "∈",
    "notin": "∉",
    "ni": "∋",
    "subset": "⊂",
    "subseteq": "⊆",
    "supset": "⊃",
    "supseteq": "⊇",
    "approx": "≈",
    "sim": "∼",
    "simeq": "≃",
    "cong": "≅",
    "equiv": "≡",
    "propto": "∝",
    "perp": "⟂",
    "parallel": "∥",
    "mid": "∣",
    "preceq": "⪯",
    "succeq": "⪰",
    "prec": "≺",
    "succ": "≻",
    "to": "→",
    "rightarrow": "→",
    "leftarrow": "←",
    "gets": "←",
    "leftrightarrow": "↔",
    "mapsto": "↦",
    "Rightarrow": "⇒",
    "Leftarrow": "⇐",
    "Leftrightarrow": "⇔",
    "implies": "⟹",
    "iff": "⟺",
    "longrightarrow": "⟶",
    "uparrow": "↑",
    "downarrow": "↓",
    "searrow": "↘",
    "nearrow": "↗",
}
OPEN = {
    "(": "(",
    "[": "[",
    "{": "{",
    "langle": "⟨",
    "lfloor": "⌊",
    "lceil": "⌈",
    "lvert": "|",
    "lVert": "‖",
}
CLOSE = {
    ")": ")",
    "]": "]",
    "}": "}",
    "rangle": "⟩",
    "rfloor": "⌋",
    "rceil": "⌉",
    "rvert": "|",
    "rVert": "‖",
}
BARS = {"vert": "|", "Vert": "‖"}
PUNCTUATION = {",": ",", ";": ";", "colon": ":"}
SUMS = {"sum": "∑", "prod": "∏", "bigcup": "⋃", "bigcap": "⋂", "bigoplus": "⨁", "coprod": "∐"}
INTEGRALS = {"int": "∫", "oint": "∮", "iint": "∬"}
LIMITS = {"max", "min", "sup", "inf", "lim", "limsup", "liminf", "argmax", "argmin", "det", "Pr"}
FUNCTIONS = LIMITS | set(
    "arg log ln lg exp sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan"
    " dim ker gcd deg hom".split()
)
ACCENTS = {
    "hat": "^",
    "widehat": "^",
    "tilde": "~",
    "widetilde": "~",
    "bar": "¯",
    "overline": "¯",
    "vec": "→",
    "dot": "˙",
    "ddot": "¨",
    "check": "ˇ",
    "breve": "˘",
}
SPACES = {
    ",": "0.167em",
    "thinspace": "0.167em",
    ":": "0.222em",
    ">": "0.222em",
    ";": "0.278em",
    "!": "-0.167em",
    " ": "0.333em",
    "quad": "1em",
    "qquad": "2em",
}
SIZES = {"big": 1.05, "Big": 1.6, "bigg": 2.2, "Bigg": 2.8}  # of a line's height, as in amsmath
ALPHABETS = {"mathrm", "mathit", "mathbb", "mathcal", "mathfrak", "mathbf", "boldsymbol"}
TABLES = {  # environment: its fences and how it is set
    "matrix": ("", "", ""),
    "pmatrix": ("(", ")", ""),
    "bmatrix": ("[", "]", ""),
    "vmatrix": ("|", "|", ""),
    "array": ("", "", ""),
    "cases": ("{", "", "cases"),
    "gathered": ("", "", "centred"),
    "aligned": ("", "", "aligned"),
    "align": ("", "", "aligned"),
    "align*": ("", "", "aligned"),
    "split": ("", "", "aligned"),
}

_SCRIPT = dict(zip("BEFHILMRego", "ℬℰℱℋℐℒℳℛℯℊℴ"))  # Unicode had these before it had the others
_DOUBLE = dict(zip("CHNPQRZ", "ℂℍℕℙℚℝℤ"))
_FRAKTUR = dict(zip("CHIRZ", "ℭℌℑℜℨ"))


def letter(alphabet: str, character: str) -> str:
    """Return a letter or digit of one of TeX's alphabets; what has no such form, as it is.

    Parameters
    ----------
    alphabet : ``mathbb``, ``mathcal``, ``mathfrak``, ``mathbf`` or ``boldsymbol``
    """
    # Starts of capitals, small letters, digits and Greek in the plane of mathematical letters.
    starts = {
        "mathbb": (0x1D538, 0x1D552, 0x1D7D8, None),
        "mathcal": (0x1D49C, 0x1D4B6, None, None),
        "mathfrak": (0x1D504, 0x1D51E, None, None),
        "mathbf": (0x1D400, 0x1D41A, 0x1D7CE, None),
        "boldsymbol": (0x1D468, 0x1D482, 0x1D7CE, 0x1D736),
    }[alphabet]
    early = {"mathbb": _DOUBLE, "mathcal": _SCRIPT, "mathfrak": _FRAKTUR}.get(alphabet, {})
    if character in early:
        return early[character]
    for start, first, last in zip(starts, "Aa0α", "Zz9ω"):
        if start is not None and first <= character <= last:
            return chr(start + ord(character) - ord(first))
    return character
