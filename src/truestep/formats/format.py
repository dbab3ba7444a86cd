"""One number format: its fields, every figure that follows from them, and its exact encoding, decoding and rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from truestep.errors import FormatError

Specials = Literal["ieee", "fn", "fnuz", "finite", "scale"]
Overflow = Literal["infinity", "nan", "saturate"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A binary floating-point format: `sign` + `exponent` + `mantissa` bits, from which all else is computed.

    A code is (sign, field, fraction). With m = `mantissa` bits, its value is ±(1 + fraction / 2^m) 2^(field - bias), or
    ±(fraction / 2^m) 2^(1 - bias) where field is 0, unless `specials` takes the code away:

    * ieee: the largest field is infinity (fraction 0) or NaN (any other fraction)
    * fn: the largest field with the largest fraction is NaN; no infinity
    * fnuz: the code that would be -0 is the only NaN; no infinity
    * finite: every code is a number
    * scale: no zero; field 0 is 2^-bias, and the largest field is NaN

    `overflow` is what becomes of a number that rounds beyond the largest finite one, unless `encode` or `round` is told
    otherwise. Every value of every format here is a Python float, exactly.

    >>> fields = {"sign": 1, "exponent": 5, "mantissa": 10, "specials": "ieee", "overflow": "infinity"}
    >>> fp16 = Format(name="fp16", **fields, source="IEEE 754-2019")
    >>> fp16.bits, fp16.max, fp16.smallest_normal == 2**-14, fp16.smallest_subnormal == 2**-24, fp16.nans
    (16, 65504.0, True, True, 2046)
    >>> fp16.round(65519.996), fp16.round(65520.0)
    (65504.0, inf)
    """

    name: str
    sign: int
    exponent: int
    mantissa: int
    specials: Specials
    overflow: Overflow
    source: str

    @property
    def bits(self) -> int:
        """Bits of one number."""
        return self.sign + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        """What is taken from the exponent field: 2^(exponent - 1) - 1, and one more for fnuz."""
        return int(2 ** (self.exponent - 1)) - (self.specials != "fnuz")

    @property
    def max(self) -> float:
        """The largest finite number."""
        return self._magnitude(self._last_finite)

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with a full mantissa."""
        return math.ldexp(1.0, self._smallest_exponent)

    @property
    def smallest_subnormal(self) -> float | None:
        """The smallest positive number; None where a format has no number below its smallest normal."""
        return self._magnitude(1) if self.mantissa else None

    @property
    def eps(self) -> float:
        """The distance from 1 to the next larger number."""
        return math.ldexp(1.0, -self.mantissa)

    @property
    def infinities(self) -> int:
        """How many codes are infinite."""
        return 2 if self.specials == "ieee" else 0

    @property
    def nans(self) -> int:
        """How many codes are no number."""
        fractions = int(2**self.mantissa)
        return {"ieee": 2 * (fractions - 1), "fn": 2, "fnuz": 1, "finite": 0, "scale": 1}[self.specials]

    def decode(self, code: int) -> float:
        """The value of a bit pattern.

        Raises FormatError for a code that does not fit the format's bits.
        """
        if not 0 <= code < 1 << self.bits:
            raise FormatError(f"{self.name} has no code {code}", hint=f"a code is 0 to {(1 << self.bits) - 1}", bits=self.bits)
        negative, code = divmod(code, self._half)
        if code > self._last_finite or (negative and not code and self.specials == "fnuz"):
            infinite = self.specials == "ieee" and code == self._last_finite + 1
            return (-math.inf if negative else math.inf) if infinite else math.nan
        return -self._magnitude(code) if negative else self._magnitude(code)

    def encode(self, number: float | Fraction, *, overflow: Overflow | None = None) -> int:
        """The bit pattern of the nearest number of the format; a tie goes to the even code.

        Args:
            number: any float or Fraction; it is rounded once, from its exact value.
            overflow: what becomes of a finite number beyond the largest; None means the format's own `overflow`.

        Returns:
            The code. Infinity is an overflow too where a format has no infinity. In a scale format a tie goes up, as
            every significand is the odd 1; its nearest number to 0 is the smallest one, and a negative number is NaN.

        Raises:
            FormatError: the result would be NaN or infinity and the format has none.
        """
        if (isinstance(number, float) and math.isnan(number)) or (number < 0 and not self.sign):
            return self._nan()
        infinite = number in (math.inf, -math.inf)
        size = -number if number < 0 else number
        code = self._last_finite + 1 if infinite else self._nearest(*size.as_integer_ratio())
        if code > self._last_finite and not (infinite and self.infinities):
            code = self._beyond(overflow or self.overflow)
        negative = number < 0 or (number == 0 and math.copysign(1.0, number) < 0)
        return self._signed(code, negative=negative)

    def round(self, number: float | Fraction, *, overflow: Overflow | None = None) -> float:
        """The nearest number of the format, ties to even: `decode(encode(number))`; arguments and errors as there."""
        return self.decode(self.encode(number, overflow=overflow))

    @property
    def _half(self) -> int:
        """How many codes a sign has; the code of -0 where there is one."""
        return 1 << (self.exponent + self.mantissa)

    @property
    def _last_finite(self) -> int:
        """The code of the largest finite number."""
        taken = {"ieee": 1 << self.mantissa, "fn": 1, "fnuz": 0, "finite": 0, "scale": 1}[self.specials]
        return self._half - 1 - taken

    @property
    def _smallest_exponent(self) -> int:
        """The power of two of the smallest normal number."""
        return (0 if self.specials == "scale" else 1) - self.bias

    def _magnitude(self, code: int) -> float:
        """The value of a finite code without its sign."""
        if self.specials == "scale":
            return math.ldexp(1.0, code + self._smallest_exponent)
        field, fraction = divmod(code, 1 << self.mantissa)
        significand = fraction + (1 << self.mantissa if field else 0)
        return math.ldexp(significand, max(field - 1, 0) + self._smallest_exponent - self.mantissa)

    def _nearest(self, numerator: int, denominator: int) -> int:
        """The code of the number nearest to a ratio that is not negative, as if there were no largest number.

        Codes count numbers upwards from zero, so a significand that rounds up to the next power of two carries into the
        exponent field by itself.
        """
        if numerator == 0:
            return 0
        power = numerator.bit_length() - denominator.bit_length()
        power -= numerator << max(-power, 0) < denominator << max(power, 0)
        power = max(power, self._smallest_exponent)
        unit = power - self.mantissa
        steps, rest = divmod(numerator << max(-unit, 0), denominator << max(unit, 0))
        remainder = 2 * rest - (denominator << max(unit, 0))
        steps += remainder > 0 or (remainder == 0 and steps % 2 == 1)
        if self.specials == "scale":
            steps = max(steps, 1) - 1
        return steps + ((power - self._smallest_exponent) << self.mantissa)

    def _signed(self, code: int, *, negative: bool) -> int:
        """A code with its sign: unsigned formats and fnuz's zero have none, fnuz's NaN is the sign bit."""
        unsigned = not self.sign or (self.specials == "fnuz" and code in (0, self._half))
        return code + self._half if negative and not unsigned else code

    def _beyond(self, overflow: Overflow) -> int:
        """The code for a number beyond the largest finite one."""
        if overflow == "saturate":
            return self._last_finite
        if overflow == "nan":
            return self._nan()
        if not self.infinities:
            raise FormatError(f"{self.name} has no infinity", hint='overflow may be "saturate", or "nan" where it has one')
        return self._last_finite + 1

    def _nan(self) -> int:
        """The code of a NaN, without a sign; in an ieee format the first quiet one."""
        if not self.nans:
            raise FormatError(f"{self.name} has no NaN", hint="look for NaN before rounding to it")
        if self.specials == "fnuz":
            return self._half
        return self._half - 1 if self.specials != "ieee" else self._last_finite + 1 + (1 << (self.mantissa - 1))
