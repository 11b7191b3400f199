"""Pure domain: ticks, the metric catalogue, rules, attribution, ports. Does no IO."""
