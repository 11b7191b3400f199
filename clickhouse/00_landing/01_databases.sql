CREATE DATABASE IF NOT EXISTS gua $ON_CLUSTER_DATABASE $DATABASE_ENGINE
COMMENT 'gpu-usage-audit: ticks of GPUs and hourly rollups'
;
CREATE DATABASE IF NOT EXISTS gua_public $ON_CLUSTER_DATABASE $PUBLIC_DATABASE_ENGINE
COMMENT 'gpu-usage-audit: GPU use in hours, ratios, bytes and money, for people and BI tools'
;
CREATE DATABASE IF NOT EXISTS gua_report $ON_CLUSTER_DATABASE $REPORT_DATABASE_ENGINE
COMMENT 'gpu-usage-audit: parameterised views behind gua report'
