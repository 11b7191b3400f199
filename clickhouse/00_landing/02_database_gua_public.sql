CREATE DATABASE IF NOT EXISTS gua_public $ON_CLUSTER_DATABASE $PUBLIC_DATABASE_ENGINE
COMMENT 'gpu-usage-audit: GPU use in hours, ratios, bytes and money, for people and BI tools'
