"""Charts as SVG, drawn on the server: arrays in, markup out; classes and no colours."""
