"""Charts in characters: the outline, the drawn picture, and one state with what is round it."""
