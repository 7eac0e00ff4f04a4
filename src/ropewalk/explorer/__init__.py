"""The page on which the encodings can be seen and touched: a panel a file, each a function from controls to numbers."""
