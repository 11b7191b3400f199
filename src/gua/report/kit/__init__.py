"""Formatting helpers of sections: figures, words, tables, bars."""
