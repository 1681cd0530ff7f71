"""Files of mappings with `template: true`: the fields inside them are filled in.

The syntax is that of `stoker.engine.transform.template_language`, over a whole file: a file is text
(UTF-8 without NUL) or it is refused, a field without a value is an error that
names the line, and every byte outside an expression stays as it is, line ends and
byte order mark included. `{{"{{"}}` writes two braces that are meant for somebody else.
"""

from __future__ import annotations

from stoker.domain.intent.template_values import TemplateValues
from stoker.engine.transform.template_language import (
    TemplateFault,
    TemplateUnresolvable,
    fill_parts,
    parse_template,
)

MAX_BYTES = 16 << 20


def fill_template(content: bytes, values: TemplateValues) -> bytes:
    """The content with every field replaced by its value."""
    text = _decode_text(content)
    if "{{" not in text:
        return content
    try:
        pieces = fill_parts(parse_template(text), values)
    except TemplateFault as fault:
        raise _error_at_line(text, fault) from None
    # Counted before it is built: a short expression may stand for a long value a million times.
    if sum(map(len, pieces)) > MAX_BYTES:
        raise TemplateUnresolvable(f"would be larger than {MAX_BYTES} bytes once its fields are filled in")
    try:
        return "".join(pieces).encode()
    except UnicodeEncodeError:
        raise TemplateUnresolvable("gets a value that is not valid Unicode text") from None


def _decode_text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise TemplateUnresolvable(f"is larger than {MAX_BYTES} bytes, so no fields are filled in")
    if b"\0" in content:
        raise TemplateUnresolvable("is binary (it holds a NUL byte), so no fields can be filled in")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise TemplateUnresolvable(
            f"is not UTF-8 text (byte {error.start}), so no fields can be filled in"
        ) from None


def _error_at_line(text: str, fault: TemplateFault) -> TemplateUnresolvable:
    line = text.count("\n", 0, fault.at) + 1
    return TemplateUnresolvable(f"line {line} {fault.why}")
