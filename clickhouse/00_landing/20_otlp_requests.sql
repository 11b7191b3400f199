-- One row is one ResourceMetrics message of an OTLP request. Columns have the names of the fields in otlp.proto; unused fields are left
-- out, as parsing takes time. The table stores nothing: two materialized views insert its points into the landing tables.
CREATE TABLE IF NOT EXISTS gua.otlp_requests $ON_CLUSTER
(
    resource Tuple(
        attributes Array(Tuple(key String, value Tuple(string_value String, bool_value Bool, int_value Int64, double_value Float64)))
    ),
    scope_metrics Array(Tuple(
        scope Tuple(name String),
        metrics Array(Tuple(
            name String,
            gauge Tuple(data_points Array(Tuple(
                attributes Array(Tuple(key String, value Tuple(string_value String, bool_value Bool, int_value Int64))),
                start_time_unix_nano UInt64,
                time_unix_nano UInt64,
                as_double Float64,
                as_int Int64,
                flags UInt32
            ))),
            sum Tuple(data_points Array(Tuple(
                attributes Array(Tuple(key String, value Tuple(string_value String, bool_value Bool, int_value Int64))),
                start_time_unix_nano UInt64,
                time_unix_nano UInt64,
                as_double Float64,
                as_int Int64,
                flags UInt32
            )),
                aggregation_temporality Int32,
                is_monotonic Bool
            )
        ))
    ))
)
ENGINE = Null
COMMENT 'Entry of spooled OTLP requests (ProtobufList)'
