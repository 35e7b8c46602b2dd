"""The base of the pydantic shapes of other files: scenarios and worlds."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict

Text = Annotated[str, Strict()]


class Shape(BaseModel):
    """A mapping with known keys only."""

    # a shape that is part of another one needs no validator of its own
    model_config = ConfigDict(
        extra="forbid", populate_by_name=True, hide_input_in_errors=True, defer_build=True
    )
