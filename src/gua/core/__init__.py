"""Domain model without IO: ticks, metric catalogue, state rules, attribution and ports."""
