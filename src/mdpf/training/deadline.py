"""A moment by which work has to be laid down, for machines that are lent for a while."""

import math
import time


class OutOfTime(Exception):
    """Work was laid down in good order because its time was over; the same call goes on with it."""


class Deadline:
    """So much time, counted from now.

    Args:
        seconds: How much; by default there is no end.
    """

    def __init__(self, seconds: float = math.inf):
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left; negative when it is over."""
        return self._end - time.monotonic()

    def require(self, seconds: float, what: str) -> None:
        """Go on only if ``what``, which takes so many seconds, still fits."""
        if self.left() < seconds:
            raise OutOfTime(f"No time is left for {what}.")

    def stop(self) -> None:
        """Let it be over now, for everybody who goes by it."""
        self._end = -math.inf

    def stopped(self) -> bool:
        """Whether somebody called a halt, whatever time there was."""
        return self._end == -math.inf
