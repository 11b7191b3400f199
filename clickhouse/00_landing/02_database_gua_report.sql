CREATE DATABASE IF NOT EXISTS gua_report $ON_CLUSTER COMMENT 'gpu-usage-audit: parameterised views behind gua report'
