"""What sections draw with: figures, words, tables, bars."""
