"""Which database is meant: the words of ATTACH, taken apart."""

import re
from dataclasses import dataclass, field
from urllib.parse import unquote

_SCHEMES = ("openduck:", "od:")
_KEYS = ("endpoint", "token", "secret", "snapshot")


@dataclass(frozen=True)
class Target:
    """A database of a server. What is None comes from a secret or from OPENDUCK_ENDPOINT and OPENDUCK_TOKEN."""

    database: str
    endpoint: str | None = None
    token: str | None = field(default=None, repr=False)
    secret: str | None = None
    snapshot: str | None = None


def parse(text: str) -> Target:
    """TEXT is a name, or a URI as ATTACH takes it: openduck:NAME?endpoint=URL&token=TOKEN&secret=NAME&snapshot=ID, or
    od:NAME.

    As there, names and values are percent-decoded and "+" stays a plus, and what is not understood is refused. No error
    repeats TEXT: it may hold a token. The token is why ATTACH does not get TEXT itself: statements are logged, their
    parameters are not.
    """
    scheme = next((s for s in _SCHEMES if text.startswith(s)), None)
    if scheme is None:
        if re.search(r"[:?]", text):
            raise ValueError("a database is a plain name or a URI: openduck:NAME?endpoint=URL&token=TOKEN")
        return Target(_database(text))
    name, _, rest = text.removeprefix(scheme).partition("?")
    values: dict[str, str] = {}
    for pair in rest.split("&") if rest else []:
        key, equals, value = pair.partition("=")
        key = key.lower()
        if not equals or key not in _KEYS:
            raise ValueError(
                "unknown parameter in the URI: endpoint, token, secret and snapshot are known, and '&' is written %26"
            )
        if key in values:
            raise ValueError(f"parameter '{key}' is given twice in the URI")
        values[key] = _decode(value, f"the value of '{key}'")
    return Target(_database(_decode(name, "the database name")), **values)


def _database(name: str) -> str:
    if not name:
        raise ValueError("no database is named: write its name at the server, such as openduck.connect('sales')")
    return name


def _decode(text: str, what: str) -> str:
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise ValueError(f"{what} has a bad percent escape; a plain '%' is written %25")
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise ValueError(f"{what} is not valid UTF-8") from None
    if re.search(r"[\x00-\x1f\x7f]", decoded):
        raise ValueError(f"{what} holds a control character")
    return decoded


def encode(text: str) -> str:
    """TEXT for a URI, all but letters, digits and _ percent-encoded."""
    return re.sub(rb"[^A-Za-z0-9_]", lambda c: b"%%%02X" % ord(c[0]), text.encode()).decode()
