CREATE DATABASE IF NOT EXISTS gua_report $ON_CLUSTER_DATABASE $REPORT_DATABASE_ENGINE
COMMENT 'gpu-usage-audit: parameterised views behind gua report'
