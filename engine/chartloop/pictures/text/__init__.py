"""Charts in characters: the outline, the drawn picture, and one state with its neighbours."""
